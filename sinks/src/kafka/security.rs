//! Encryption and authentication, from settings to librdkafka's options.

use super::config::{Mechanism, Sasl, Tls};
use super::options::Options;
use crate::Problems;
use crate::settings::{Secret, check_pem_files};

/// Sets the options of `tls`.
pub(super) fn tls(options: &mut Options, tls: &Tls, problems: &mut Problems) {
    check_pem_files(
        tls.ca_file.as_deref(),
        tls.cert_file.as_deref(),
        tls.key_file.as_deref(),
        problems,
    );
    for (option, path) in [
        ("ssl.ca.location", &tls.ca_file),
        ("ssl.certificate.location", &tls.cert_file),
        ("ssl.key.location", &tls.key_file),
    ] {
        if let Some(path) = path {
            options.set(option, path.to_string_lossy());
        }
    }
    let file = tls.key_password_file.as_deref();
    let password = Secret::resolve("key_password", tls.key_password.clone(), file);
    if let Some(Some(password)) = problems.note("tls.key_password", password) {
        options.set_secret("ssl.key.password", password);
    }
}

/// Sets the options of `sasl`.
pub(super) fn sasl(options: &mut Options, sasl: &Sasl, problems: &mut Problems) {
    options.set("sasl.mechanism", sasl.mechanism.as_str());
    if sasl.mechanism == Mechanism::OAuthBearer {
        let oidc = options.set_checked("sasl.oauthbearer.method", "oidc").map_err(|_| {
            "this build can't fetch tokens: build with the feature `kafka-oauth`, which needs libcurl's headers"
        });
        problems.note("sasl.mechanism", oidc);
    }
    names(options, sasl, problems);
    secrets(options, sasl, problems);
}

/// What is no secret.
fn names(options: &mut Options, sasl: &Sasl, problems: &mut Problems) {
    use Wanted::{OptionalForToken, Password, Token};
    for (key, option, wanted, value) in [
        ("username", "sasl.username", Password, &sasl.username),
        (
            "token_endpoint",
            "sasl.oauthbearer.token.endpoint.url",
            Token,
            &sasl.token_endpoint,
        ),
        (
            "client_id",
            "sasl.oauthbearer.client.id",
            Token,
            &sasl.client_id,
        ),
        (
            "scope",
            "sasl.oauthbearer.scope",
            OptionalForToken,
            &sasl.scope,
        ),
        (
            "extensions",
            "sasl.oauthbearer.extensions",
            OptionalForToken,
            &sasl.extensions,
        ),
    ] {
        wanted.check(sasl.mechanism, key, value.is_some(), problems);
        if let Some(value) = value {
            options.set(option, value);
        }
    }
}

fn secrets(options: &mut Options, sasl: &Sasl, problems: &mut Problems) {
    let password = Secret::resolve(
        "password",
        sasl.password.clone(),
        sasl.password_file.as_deref(),
    );
    let (secret, file) = (
        sasl.client_secret.clone(),
        sasl.client_secret_file.as_deref(),
    );
    let secret = Secret::resolve("client_secret", secret, file);
    for (key, option, wanted, secret) in [
        ("password", "sasl.password", Wanted::Password, password),
        (
            "client_secret",
            "sasl.oauthbearer.client.secret",
            Wanted::Token,
            secret,
        ),
    ] {
        let Some(secret) = problems.note(&format!("sasl.{key}"), secret) else {
            continue;
        };
        wanted.check(sasl.mechanism, key, secret.is_some(), problems);
        if let Some(secret) = secret {
            options.set_secret(option, secret);
        }
    }
}

/// Which mechanisms want a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Password,
    Token,
    OptionalForToken,
}

impl Wanted {
    /// Whether a value is there if and only if the mechanism wants it.
    fn check(self, mechanism: Mechanism, key: &str, given: bool, problems: &mut Problems) {
        let by_token = mechanism == Mechanism::OAuthBearer;
        let wanted = by_token != (self == Self::Password);
        let mechanism = mechanism.as_str();
        if given && !wanted {
            problems.add(format!("sasl.{key}"), format!("{mechanism} has no `{key}`"));
        } else if !given && wanted && self != Self::OptionalForToken {
            problems.add(
                format!("sasl.{key}"),
                format!("{mechanism} needs a `{key}`"),
            );
        }
    }
}
