//! Logins checked by a directory. Promises: the number of logins at a time is limited, so that a
//! directory that does not answer cannot occupy all threads; each login ends within its time limit.

use crate::client::{Client, DirectoryError, Entry};
use crate::mapping::MappedName;
use crate::settings::{Address, ParsedSettings, Settings};
use crate::stream::Stream;
use crate::template::Names;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Most logins at a time.
const LOGINS_MAX: usize = 16;
/// Longest name of a user, and longest password.
const TEXT_BYTES_MAX: usize = 1024;

/// A user that the directory knows.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectoryUser {
    /// Its groups; `None` if the directory is not searched for groups.
    pub groups: Option<Vec<String>>,
}

/// Why a login failed. For the log: it contains no password.
#[derive(Clone, Debug, PartialEq)]
pub enum LoginError {
    /// The directory does not know this user, or the password is wrong.
    Refused(String),
    /// The directory could not be asked.
    Trouble(String),
    /// Too many logins are running.
    Busy,
}

/// A directory.
pub struct Directory {
    settings: ParsedSettings,
    asking: AtomicUsize,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.settings.servers).finish()
    }
}

/// A login in progress; dropping it frees its place.
struct LoginPermit<'a>(&'a AtomicUsize);

impl Drop for LoginPermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn refuse<T>(why: &str) -> Result<T, LoginError> {
    Err(LoginError::Refused(why.to_owned()))
}

impl From<DirectoryError> for LoginError {
    fn from(trouble: DirectoryError) -> LoginError {
        LoginError::Trouble(trouble.0)
    }
}

impl Directory {
    /// From settings. Nothing is sent to the directory yet.
    ///
    /// # Errors
    /// One line that names what is wrong.
    pub fn new(settings: Settings) -> Result<Directory, String> {
        Ok(Directory {
            settings: settings.read()?,
            asking: AtomicUsize::new(0),
        })
    }

    /// Whether the directory is searched for the groups of users.
    pub fn has_groups(&self) -> bool {
        self.settings.groups.is_some()
    }

    /// Checks the password of a user. Blocks, at most for the time in the settings.
    ///
    /// # Errors
    /// The reason why the login failed.
    pub fn log_in(&self, user: &str, password: &str) -> Result<DirectoryUser, LoginError> {
        for (what, text) in [("name", user), ("password", password)] {
            // With an empty password a directory binds anonymously and reports success.
            if text.is_empty() {
                return refuse(&format!("the {what} is empty"));
            }
            if text.len() > TEXT_BYTES_MAX || text.contains('\0') {
                return refuse(&format!("the {what} is too long or has a NUL"));
            }
        }
        let before = self.asking.fetch_add(1, Ordering::Relaxed);
        let _asking = LoginPermit(&self.asking);
        if before >= LOGINS_MAX {
            return Err(LoginError::Busy);
        }
        let until = Instant::now() + self.settings.timeout;
        let mut troubles = Vec::new();
        for server in &self.settings.servers {
            match self.ask(server, until, user, password) {
                Err(LoginError::Trouble(what)) => {
                    troubles.push(format!("the LDAP server {server}: {what}"));
                }
                ended => return ended,
            }
        }
        Err(LoginError::Trouble(troubles.join("; ")))
    }

    fn ask(
        &self,
        server: &Address,
        until: Instant,
        user: &str,
        password: &str,
    ) -> Result<DirectoryUser, LoginError> {
        let stream = Stream::open(server, &self.settings.security, until)
            .map_err(|e| LoginError::Trouble(format!("it cannot be reached: {e}")))?;
        let mut client = Client::new(stream);
        let known = self.conversation(&mut client, user, password);
        if matches!(known, Ok(_) | Err(LoginError::Refused(_))) {
            client.close();
        }
        known
    }

    fn conversation(
        &self,
        client: &mut Client,
        user: &str,
        password: &str,
    ) -> Result<DirectoryUser, LoginError> {
        let mut names = self.names(client, user)?;
        if names.user.is_empty() {
            return refuse("the name of the user in the directory is empty");
        }
        if !client.bind(&names.user, password)? {
            return refuse("the directory refuses the name or the password");
        }
        let Some(query) = &self.settings.groups else {
            return Ok(DirectoryUser { groups: None });
        };
        self.become_searcher(client)?;
        names.groups.clear();
        let entries = client.search(query, &names, self.seconds())?;
        let groups = match &query.attribute {
            Some(_) => entries.into_iter().flat_map(|e| e.values).collect(),
            None => entries.into_iter().map(|e| e.name).collect(),
        };
        Ok(DirectoryUser {
            groups: Some(groups),
        })
    }

    /// The names of a user, by the first rule that finds it.
    fn names(&self, client: &mut Client, user: &str) -> Result<Names, LoginError> {
        let mut searches = false;
        for (becomes, mut names) in self.settings.mapping.of(user) {
            match becomes {
                MappedName::Name(name) => {
                    names.user = name.name(&names);
                    return Ok(names);
                }
                MappedName::Found(query) => {
                    if !searches {
                        self.become_searcher(client)?;
                        searches = true;
                    }
                    let found = client.search(query, &names, self.seconds())?;
                    match found.as_slice() {
                        [] => {}
                        [Entry { name, .. }] => {
                            names.user = name.clone();
                            return Ok(names);
                        }
                        _ => return refuse("several entries are found for the name"),
                    }
                }
            }
        }
        refuse("no rule of userToDNMapping finds the name")
    }

    fn become_searcher(&self, client: &mut Client) -> Result<(), LoginError> {
        let Some((name, password)) = &self.settings.searcher else {
            return Ok(());
        };
        match client.bind(name, password)? {
            true => Ok(()),
            false => Err(LoginError::Trouble(
                "it refuses security.ldap.bind.queryUser or its password".to_owned(),
            )),
        }
    }

    fn seconds(&self) -> u32 {
        u32::try_from(self.settings.timeout.as_secs()).map_or(u32::MAX >> 1, |s| s.max(1))
    }
}
