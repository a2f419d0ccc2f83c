//! The PEM files of a `tls` table, checked before anything connects.

use std::path::Path;

use crate::Problems;

/// Notes what is wrong with the PEM files of a `tls` table: one that can't be read, a
/// certificate without its key, a key without its certificate.
pub(crate) fn check_pem_files(
    ca_file: Option<&Path>,
    cert_file: Option<&Path>,
    key_file: Option<&Path>,
    problems: &mut Problems,
) {
    for (key, file) in [
        ("tls.ca_file", ca_file),
        ("tls.cert_file", cert_file),
        ("tls.key_file", key_file),
    ] {
        if let Some(path) = file
            && let Err(error) = std::fs::File::open(path)
        {
            problems.add(key, format!("read {}: {error}", path.display()));
        }
    }
    if cert_file.is_some() != key_file.is_some() {
        problems.add(
            "tls.cert_file",
            "a certificate needs its `key_file`, and a key its `cert_file`",
        );
    }
}
