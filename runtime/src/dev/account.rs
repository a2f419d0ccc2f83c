//! The account that the server runs under.
//!
//! Postgres refuses to run as root. Then it runs as `nobody`, which owns the data
//! and nothing else; any other user runs it as themselves. Changes no account.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use super::DevError;

/// Variables that Postgres would take settings from, behind our back.
const IGNORED: [&str; 4] = ["PGDATA", "PGPORT", "PGDATESTYLE", "PGCLIENTENCODING"];

/// Who owns the server's files and runs its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    uid: u32,
    gid: u32,
    /// Whether we are root and have to become that user.
    switch: bool,
}

impl Account {
    /// The present user, or `nobody` for root.
    pub(super) fn for_server() -> Result<Self, DevError> {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        if !uid.is_root() {
            return Ok(Self {
                uid: uid.as_raw(),
                gid: gid.as_raw(),
                switch: false,
            });
        }
        let users = Path::new("/etc/passwd");
        let text = std::fs::read_to_string(users).map_err(DevError::file("read", users))?;
        find_user(&text, "nobody").ok_or_else(|| {
            DevError::Server(
                "Postgres does not run as root, and there is no user `nobody` to run it: \
                 run `sinks dev` as another user"
                    .to_owned(),
            )
        })
    }

    pub(super) const fn uid(self) -> u32 {
        self.uid
    }

    /// A command that runs under this account, apart from our terminal's Ctrl-C: we
    /// end it ourselves, once the worker has let go of it.
    pub(super) fn command(self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        for name in IGNORED {
            command.env_remove(name);
        }
        // Messages that are passed on to the user are in one language.
        command.env("LC_ALL", "C");
        if self.switch {
            command.uid(self.uid).gid(self.gid);
        }
        command
    }

    /// Makes a new folder that belongs to the account alone.
    pub(super) fn take_over(self, folder: &Path) -> std::io::Result<()> {
        use std::os::unix::fs::{PermissionsExt, chown};
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
        if self.switch {
            chown(folder, Some(self.uid), Some(self.gid))?;
        }
        Ok(())
    }

    /// Whether the account can get into the folder, found out by going there: modes
    /// alone don't tell (access lists, mounts).
    pub(super) async fn can_enter(self, folder: &Path) -> bool {
        if !self.switch {
            return true;
        }
        self.command("/bin/sh")
            .args(["-c", "cd \"$1\"", "sh"])
            .arg(folder)
            .status()
            .await
            .is_ok_and(|status| status.success())
    }
}

fn find_user(passwd: &str, name: &str) -> Option<Account> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next() != Some(name) {
            return None;
        }
        Some(Account {
            uid: fields.nth(1)?.parse().ok()?,
            gid: fields.next()?.parse().ok()?,
            switch: true,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_with_uid_and_gid() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nnobody2:x:7:8::/:\nnobody:*:65534:65533:nobody:/nonexistent:/usr/sbin/nologin\n";
        let account = find_user(passwd, "nobody").unwrap();
        assert_eq!((account.uid, account.gid), (65534, 65533));
        assert_eq!(find_user(passwd, "postgres"), None);
        assert_eq!(find_user("nobody:x:no:1:", "nobody"), None);
    }
}
