//! Which cryptography TLS uses: one choice for the whole program, made before the first connection.

use std::sync::Once;

/// Selects ring.
pub fn use_ring() {
    static CHOSEN: Once = Once::new();
    CHOSEN.call_once(|| {
        // It may have been selected before; there is no other one.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
