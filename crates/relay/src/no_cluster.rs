//! Stands in for the cluster in a build without NATS: every attempt to configure one is an error.

use std::sync::Arc;

use domain::{Error, ErrorCode};
use tunnel::Link;
use wire::betcode::v1::RegisterRequest;

use crate::hub::Hub;

pub(crate) use AbsentCluster as Cluster;

/// Never made.
pub(crate) enum AbsentCluster {}

/// Never made.
pub(crate) struct AbsentRoute {
    pub(crate) link: Arc<Link>,
    pub(crate) epoch: u64,
}

/// Refuses what needs NATS.
pub(crate) fn check() -> Result<(), Error> {
    let message = "--nats: this build has no NATS; build obey with the feature `nats`";
    Err(Error::new(ErrorCode::ConfigInvalid, message))
}

impl AbsentCluster {
    pub(crate) async fn start(_url: &str, _cluster: &str, _hub: &Arc<Hub>) -> Result<Arc<Self>, Error> {
        check().and_then(|()| Err(Error::new(ErrorCode::ConfigInvalid, "there is no NATS")))
    }

    pub(crate) fn route(&self, _machine_id: &str) -> Option<AbsentRoute> {
        match *self {}
    }

    pub(crate) fn is_cut_off(&self, _machine_id: &str) -> bool {
        match *self {}
    }

    pub(crate) fn registered(&self, _machine_id: &str) -> Option<RegisterRequest> {
        match *self {}
    }

    pub(crate) fn counts(&self) -> (usize, usize) {
        match *self {}
    }

    pub(crate) fn state(&self) -> String {
        match *self {}
    }
}
