//! Who gives an order: it is kept in the record of operations.

use clap::Args;

use crate::config::Environment;

/// The option that every command has which orders something.
#[derive(Args, Debug)]
pub(super) struct By {
    /// Who orders this, for the record; by default user@host
    #[arg(long, value_name = "WHO")]
    by: Option<String>,
}

impl By {
    pub(super) fn name(&self) -> String {
        self.by
            .clone()
            .unwrap_or_else(|| whoever(&Environment::process()))
    }
}

/// The user and the host, as far as they are known.
fn whoever(environment: &Environment) -> String {
    let user = ["USER", "LOGNAME"]
        .into_iter()
        .filter_map(|name| environment.get(name).ok())
        .find(|name| !name.is_empty());
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    format!("{}@{host}", user.as_deref().unwrap_or("unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_says_nothing_is_named_by_user_and_host() {
        let known = Environment::fixed([("USER", ""), ("LOGNAME", "jo")]);
        assert!(whoever(&known).starts_with("jo@"));
        assert!(whoever(&Environment::fixed([])).starts_with("unknown@"));
        let said = By {
            by: Some("max".to_owned()),
        };
        assert_eq!(said.name(), "max");
    }
}
