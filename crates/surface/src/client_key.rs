//! The key by which a client makes a call take effect once, where the published messages have no field for it.

use tonic::metadata::MetadataMap;

/// The metadata key.
pub const CLIENT_KEY: &str = "x-obey-client-key";

/// Returns the key of a call; empty: it has none.
pub fn client_key(metadata: &MetadataMap) -> String {
    metadata.get(CLIENT_KEY).and_then(|key| key.to_str().ok()).unwrap_or_default().to_owned()
}
