//! Which release of MongoDB is followed where releases differ. This is the one place that decides:
//! a difference is a method here, and what differs asks it.
//!
//! Must not know: operators, commands.

use model::code;

/// A release that is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// MongoDB 8.2.
    #[default]
    V8_2,
    /// MongoDB 9.0, with what 8.3 brought.
    V9_0,
}

/// Expressions that 8.3 brought.
const EXPRESSIONS_OF_8_3: &[&str] = &["$hash", "$hexHash", "$createObjectId", "$subtype"];

impl Profile {
    /// All that are known.
    pub const ALL: [Profile; 2] = [Profile::V8_2, Profile::V9_0];

    /// As an option names it.
    pub fn name(self) -> &'static str {
        match self {
            Profile::V8_2 => "8.2",
            Profile::V9_0 => "9.0",
        }
    }

    /// The profile of that name.
    pub fn named(name: &str) -> Option<Profile> {
        Profile::ALL.into_iter().find(|p| p.name() == name)
    }

    /// Whether an expression is known. 8.2 refuses those of 8.3 as any unknown name.
    pub fn knows(self, expression: &str) -> bool {
        self >= Profile::V9_0 || !EXPRESSIONS_OF_8_3.contains(&expression)
    }

    /// `$map`, `$filter` and `$reduce` tell the index of an element.
    pub fn tells_indexes(self) -> bool {
        self >= Profile::V9_0
    }

    /// A dotted path that leads into an empty array, to a scalar or an array inside of an array
    /// leads to null.
    pub fn finds_null_in_arrays(self) -> bool {
        self >= Profile::V9_0
    }

    /// `$group` refuses a field without a name.
    pub fn refuses_groups_without_a_name(self) -> bool {
        self >= Profile::V9_0
    }

    /// The error of a document that a geospatial index cannot take; `number` is that of 8.2.
    pub fn geo_key_error(self, number: i32) -> i32 {
        match number {
            16755 | 16756 if self >= Profile::V9_0 => code::GEO_KEY_EXTRACTION_FAILED,
            number => number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_new_expressions_are_known_to_new_releases_only() {
        for p in Profile::ALL {
            assert_eq!(Profile::named(p.name()), Some(p));
            assert!(p.knows("$add"));
            assert_eq!(p.knows("$hash"), p == Profile::V9_0);
        }
        assert_eq!(Profile::named("7.0"), None);
        assert!(
            EXPRESSIONS_OF_8_3
                .iter()
                .all(|n| crate::expr::find(n).is_some())
        );
    }
}
