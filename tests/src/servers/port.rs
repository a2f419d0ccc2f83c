//! Free ports for servers.
//!
//! They lie below the range from which the kernel takes the ports of outgoing connections
//! (32768 and up on Linux). A port from inside that range can be taken by any client while its
//! server is down, so that a restart fails; worse, a client that keeps reconnecting to it can be
//! given that very port and reach itself.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 16_000;
const COUNT: u32 = 16_000;

/// A port on the loopback address that nothing listens on, and that this process does not hand
/// out again before it has gone through all the others.
///
/// # Panics
///
/// If every port is taken.
pub fn free_port() -> u16 {
    // Test processes that run side by side start at different places.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let offset = std::process::id().wrapping_mul(97);
    (0..COUNT)
        .filter_map(|_| {
            let step = NEXT.fetch_add(1, Ordering::Relaxed);
            u16::try_from(FIRST + offset.wrapping_add(step) % COUNT).ok()
        })
        .find(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
        .expect("one of 16,000 ports is free")
}
