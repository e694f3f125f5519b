//! Passwords: removed from addresses before anything is stored or shown.

/// `scheme://user:password@host` without the password; everything else is kept.
pub(crate) fn hide_password(uri: &str) -> String {
    let Some((scheme, rest)) = uri.split_once("://") else {
        return uri.to_owned();
    };
    // The last @ before the path ends the user part, because a password may contain an unescaped @.
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    match authority.rsplit_once('@') {
        Some((user, host)) if user.contains(':') => {
            let name = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{name}:***@{host}{tail}")
        }
        _ => uri.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_never_reach_a_report() {
        for (given, kept) in [
            ("mongodb://127.0.0.1:27017", "mongodb://127.0.0.1:27017"),
            (
                "mongodb://me:se:cret@h:1/db?x=1",
                "mongodb://me:***@h:1/db?x=1",
            ),
            ("mongodb://me:p@ss@h:1", "mongodb://me:***@h:1"),
            (
                "mongodb+srv://me:x@h/?a=b@c",
                "mongodb+srv://me:***@h/?a=b@c",
            ),
            ("mysql://root@h:3306/x", "mysql://root@h:3306/x"),
        ] {
            assert_eq!(hide_password(given), kept);
        }
    }
}
