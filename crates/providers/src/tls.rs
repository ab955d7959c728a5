//! Which cryptography TLS uses: one choice for the whole program, made before the first connection.

use std::sync::Once;

/// Chooses ring.
pub(crate) fn use_ring() {
    static CHOSEN: Once = Once::new();
    CHOSEN.call_once(|| {
        // Somebody else may have chosen the same before; there is no other.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
