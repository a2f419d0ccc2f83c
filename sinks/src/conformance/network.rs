//! The network of one check: whole when it begins, and broken by nobody else.

use std::ops::Deref;

use super::finding::{Finding, Stop};
use super::{Destination, Mode, Proxy};

/// A proxy in front of the server.
#[derive(Debug)]
pub(super) enum Network<'d> {
    /// Ends with the check.
    Own(Proxy),
    /// The author's.
    Given(&'d Proxy),
}

impl<'d> Network<'d> {
    pub(super) async fn of<D: Destination>(destination: &'d D) -> Finding<Self> {
        if let Some(proxy) = destination.proxy() {
            // What earlier checks have left open is none of this one's.
            proxy.cut();
            proxy.set(Mode::Pass);
            return Ok(Self::Given(proxy));
        }
        match destination.server() {
            Some(server) => Ok(Self::Own(Proxy::start(server).await)),
            None => Err(Stop::not_applicable(
                "there is no network in between (`Destination::server`)",
            )),
        }
    }
}

impl Deref for Network<'_> {
    type Target = Proxy;

    fn deref(&self) -> &Proxy {
        match self {
            Self::Own(proxy) => proxy,
            Self::Given(proxy) => proxy,
        }
    }
}

impl Drop for Network<'_> {
    fn drop(&mut self) {
        self.set(Mode::Pass);
    }
}
