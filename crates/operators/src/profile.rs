//! Which release of MongoDB is followed where releases differ. Only this module decides: each
//! difference is a method here, and the code that differs calls it.
//!
//! Must not know: operators, commands.

use model::code;

/// A release whose behavior is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// MongoDB 8.2, with the expressions and arguments that 8.3 added.
    #[default]
    V8_2,
    /// MongoDB 9.0, with everything from 8.3.
    V9_0,
}

impl Profile {
    /// All known releases.
    pub const ALL: [Profile; 2] = [Profile::V8_2, Profile::V9_0];

    /// The name of the release in options.
    pub fn name(self) -> &'static str {
        match self {
            Profile::V8_2 => "8.2",
            Profile::V9_0 => "9.0",
        }
    }

    /// The profile of that name.
    pub fn find(name: &str) -> Option<Profile> {
        Profile::ALL.into_iter().find(|p| p.name() == name)
    }

    /// `$convert` makes documents and arrays of text and of vectors, binary data of both, and text
    /// of values of every type (8.3 and 9.0); before, these conversions failed.
    pub fn converts_every_type(self) -> bool {
        self >= Profile::V9_0
    }

    /// `$convert` parses numbers so small that digits are lost (8.3).
    pub fn reads_subnormal_numbers(self) -> bool {
        self >= Profile::V9_0
    }

    /// A dotted path that leads into an empty array, to a scalar inside an array or to an array
    /// inside an array counts as null.
    pub fn finds_null_in_arrays(self) -> bool {
        self >= Profile::V9_0
    }

    /// `$group` refuses a field with an empty name.
    pub fn refuses_groups_without_a_name(self) -> bool {
        self >= Profile::V9_0
    }

    /// Validation has the level `constraint`, and the options that prepare for it.
    pub fn has_constraints(self) -> bool {
        self >= Profile::V9_0
    }

    /// `find`, `aggregate` and `distinct` take the argument for query settings.
    pub fn takes_query_settings(self) -> bool {
        self >= Profile::V9_0
    }

    /// The number of open transactions and the memory of one operation are bounded.
    pub fn bounds_operations(self) -> bool {
        self >= Profile::V9_0
    }

    /// Dates in scripts use UTC as local time, whatever the host's time zone is.
    pub fn has_utc_scripts(self) -> bool {
        self >= Profile::V9_0
    }

    /// The error code for a document that a geospatial index cannot take; `number` is the code of
    /// 8.2.
    pub fn geo_key_error(self, number: i32) -> i32 {
        match number {
            16755 | 16756 if self >= Profile::V9_0 => code::GEO_KEY_EXTRACTION_FAILED,
            183_934 | 183_493 if self >= Profile::V9_0 => {
                code::GEO_KEY_EXTRACTION_FAILED_TIMESERIES
            }
            number => number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        for p in Profile::ALL {
            assert_eq!(Profile::find(p.name()), Some(p));
        }
        assert_eq!(Profile::find("7.0"), None);
    }

    #[test]
    fn errors_of_geospatial_keys_have_names_since_9_0() {
        for (number, since_9_0) in [(16755, 510), (16756, 510), (183_934, 511), (183_493, 511)] {
            assert_eq!(Profile::V8_2.geo_key_error(number), number);
            assert_eq!(Profile::V9_0.geo_key_error(number), since_9_0);
        }
    }
}
