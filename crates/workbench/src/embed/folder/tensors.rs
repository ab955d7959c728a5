//! The safetensors format: a length, a JSON header with the offsets of each tensor, then the numbers.
//! Converts half precision to single. The file is not trusted: every offset is checked.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use sha2::{Digest, Sha256};

/// A header is a few kilobytes; the format allows no more than this.
const HEADER_MAX: u64 = 100_000_000;

/// The distance and length of the samples in a fingerprint. Training changes all numbers.
const SAMPLE_EVERY: usize = 4096;
const SAMPLE: usize = 16;

/// A loaded file.
pub(super) struct Tensors {
    header: HashMap<String, TensorLocation>,
    numbers: Vec<u8>,
    fingerprint: String,
}

#[derive(Deserialize)]
struct TensorLocation {
    #[serde(default)]
    dtype: String,
    #[serde(default)]
    shape: Vec<usize>,
    #[serde(default)]
    data_offsets: (usize, usize),
}

impl Tensors {
    /// Reads a whole file of at most `most` bytes.
    pub(super) fn read(path: &Path, most: u64) -> Result<Self, String> {
        let said = |error: std::io::Error| error.to_string();
        let mut file = std::fs::File::open(path).map_err(said)?;
        let size = file.metadata().map_err(said)?.len();
        if size > most {
            return Err(format!("it is larger than {most} bytes"));
        }
        let mut length = [0; 8];
        file.read_exact(&mut length).map_err(said)?;
        let length = u64::from_le_bytes(length);
        if length > HEADER_MAX.min(size) {
            return Err("it is not in the safetensors format".to_owned());
        }
        let mut header = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_exact(&mut header).map_err(said)?;
        let mut numbers = Vec::new();
        file.read_to_end(&mut numbers).map_err(said)?;
        let fingerprint = fingerprint(&header, &numbers);
        let header: HashMap<String, TensorLocation> =
            serde_json::from_slice(&header).map_err(|error| format!("its header cannot be read: {error}"))?;
        Ok(Self { header, numbers, fingerprint })
    }

    /// Identifies this file's content.
    pub(super) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Returns a tensor of the given shape. Some files prefix every name with the model's type.
    pub(super) fn take(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, String> {
        let place = self.header.get(name).or_else(|| self.header.get(&format!("bert.{name}")));
        let place = place.ok_or_else(|| format!("{name} is not in it"))?;
        if place.shape != shape {
            return Err(format!("{name} has the shape {:?}, not {shape:?}", place.shape));
        }
        let (from, to) = place.data_offsets;
        let bytes = self.numbers.get(from..to).ok_or_else(|| format!("{name} lies outside of it"))?;
        let numbers: Vec<f32> = match place.dtype.as_str() {
            "F32" => bytes
                .chunks_exact(4)
                .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
                .collect(),
            "BF16" => bytes.chunks_exact(2).map(|two| f32::from_le_bytes([0, 0, two[0], two[1]])).collect(),
            "F16" => bytes.chunks_exact(2).map(|two| half(u16::from_le_bytes([two[0], two[1]]))).collect(),
            other => return Err(format!("{name} is made of {other}, which is not known")),
        };
        if numbers.len() == shape.iter().product::<usize>() {
            Ok(numbers)
        } else {
            Err(format!("{name} is shorter or longer than its shape"))
        }
    }
}

/// Returns a hash of the header and of samples of the numbers. It identifies a model without hashing all of
/// it.
fn fingerprint(header: &[u8], numbers: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(header);
    hash.update(numbers.len().to_le_bytes());
    for stretch in numbers.chunks(SAMPLE_EVERY) {
        hash.update(&stretch[..stretch.len().min(SAMPLE)]);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Half precision: one bit sign, five bits exponent, ten bits fraction.
fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, rest) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff));
    match exponent {
        0 => sign * rest * 2f32.powi(-24),
        31 if rest == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1.0 + rest / 1024.0) * 2f32.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_is_read_exactly() {
        for (bits, number) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x3555, 0.333_251_95),
            (0x0001, 5.960_464_5e-8),
        ] {
            assert_eq!(half(bits), number);
        }
        assert_eq!(half(0x7c00), f32::INFINITY);
        assert!(half(0x7e00).is_nan());
    }

    fn file(header: &str, numbers: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, &(header.len() as u64).to_le_bytes()).unwrap();
        std::io::Write::write_all(&mut file, header.as_bytes()).unwrap();
        std::io::Write::write_all(&mut file, numbers).unwrap();
        file
    }

    #[test]
    fn a_tensor_is_read_where_the_header_says_and_nowhere_else() {
        let header = r#"{"__metadata__":{"format":"pt"},"bert.a":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]},
            "b":{"dtype":"F32","shape":[4],"data_offsets":[4,99]},"c":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},
            "d":{"dtype":"F32","shape":[3],"data_offsets":[4,12]}}"#;
        let numbers: Vec<u8> = [9f32, 1.5, -2.5].iter().flat_map(|number| number.to_le_bytes()).collect();
        let written = file(header, &numbers);
        let tensors = Tensors::read(written.path(), 1 << 20).unwrap();
        assert_eq!(tensors.take("a", &[1, 2]).unwrap(), [1.5, -2.5]);
        for (name, shape) in [("a", &[2, 1][..]), ("b", &[4]), ("c", &[1]), ("d", &[3]), ("e", &[1])] {
            assert!(tensors.take(name, shape).is_err(), "{name}");
        }
        assert!(Tensors::read(written.path(), 10).is_err());
        let other = file(header, &[0; 12]);
        assert_ne!(Tensors::read(other.path(), 1 << 20).unwrap().fingerprint(), tensors.fingerprint());
        assert!(Tensors::read(file("no json", &[]).path(), 1 << 20).is_err());
    }
}
