//! `--compat`: the release of MongoDB that is followed.

use commands::Profile;

/// The profile asked for.
pub(super) fn profile(given: Option<&str>) -> Result<Profile, String> {
    let Some(given) = given else {
        return Ok(Profile::default());
    };
    Profile::find(given).ok_or_else(|| {
        let known: Vec<_> = Profile::ALL.iter().map(|p| p.name()).collect();
        format!("compat must be one of {}, given {given}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_known_by_name() {
        assert_eq!(profile(None), Ok(Profile::V8_2));
        assert_eq!(profile(Some("9.0")), Ok(Profile::V9_0));
        let refused = profile(Some("7.0")).unwrap_err();
        assert!(refused.contains("8.2, 9.0, given 7.0"), "{refused}");
    }
}
