//! Values that settings are made of: secrets, sizes, durations, certificates.
//!
//! Each reads what an operator writes, shows itself without harm, and describes itself in
//! the JSON Schema of the configuration. A pattern in there is as wide as what is read:
//! a schema that calls a legal file wrong is worse than none.

#[cfg(any(feature = "kafka", feature = "nats"))]
mod pem;
mod period;
mod secret;
mod size;

#[cfg(any(feature = "kafka", feature = "nats"))]
pub(crate) use pem::check_pem_files;
pub use period::Period;
pub use secret::Secret;
pub use size::Size;
