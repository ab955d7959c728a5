//! Makes generated clients and servers call `crate::unary` for methods without streams. The generator has no setting for
//! it: a codec's path is chosen for all methods, and the calls of tonic's generic code are fixed.

use std::collections::BTreeSet;
use std::path::Path;

use protox::prost_reflect::DescriptorPool;

const CODEC: &str = "let codec = tonic_prost::ProstCodec::default();";

/// Rewrites the generated files in `out`. An error if a unary method was not found as its generator writes it today.
pub(crate) fn rewrite(pool: &DescriptorPool, out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut rewritten = 0;
    let packages: BTreeSet<String> = pool.files().map(|file| file.package_name().to_owned()).collect();
    for package in packages {
        let path = out.join(format!("{package}.rs"));
        let Ok(code) = std::fs::read_to_string(&path) else { continue };
        let (code, methods) = rewrite_code(&code);
        rewritten += methods;
        std::fs::write(&path, code)?;
    }
    let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let unary =
        methods.filter(|method| !method.is_client_streaming() && !method.is_server_streaming()).count();
    // Each has a client and a server.
    if rewritten != 2 * unary {
        return Err(format!("{rewritten} of {} ends of unary methods were rewritten", 2 * unary).into());
    }
    Ok(())
}

/// Rewrites one file; each method's code begins with its codec.
fn rewrite_code(code: &str) -> (String, usize) {
    let mut parts = code.split(CODEC);
    let mut rewritten = parts.next().unwrap_or_default().to_owned();
    let mut methods = 0;
    for method in parts {
        if let Some((before, after)) = method.split_once("self.inner.unary(req, path, codec)") {
            rewritten.push_str(before);
            rewritten.push_str("crate::unary::call(&mut self.inner, req, path)");
            rewritten.push_str(after);
            methods += 1;
        } else if let Some((before, after)) = method.split_once("grpc.unary(method, req)") {
            rewritten.push_str("let codec = crate::unary::BytesCodec;");
            rewritten.push_str(before);
            rewritten.push_str("grpc.unary(crate::unary::bytes_method(method), req)");
            rewritten.push_str(after);
            methods += 1;
        } else {
            rewritten.push_str(CODEC);
            rewritten.push_str(method);
        }
    }
    (rewritten, methods)
}
