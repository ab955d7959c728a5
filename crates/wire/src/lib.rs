//! Generated messages, clients and servers of the published interfaces, one module per protobuf package.
//! No logic lives here but what every unary call does (`unary.rs`).

#![allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub)]

pub mod access;
mod names;
mod unary;

pub mod obey {
    pub mod local {
        pub mod v1 {
            tonic::include_proto!("obey.local.v1");
        }
    }
    pub mod v1 {
        tonic::include_proto!("obey.v1");
    }
}

pub mod betcode {
    pub mod v1 {
        tonic::include_proto!("betcode.v1");
    }
}

pub mod contextd {
    pub mod v1 {
        tonic::include_proto!("contextd.v1");
    }
}

pub mod roz {
    pub mod v1 {
        tonic::include_proto!("roz.v1");
    }
}

/// The encoded descriptor set of every package, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
