//! Names of users and roles: a name and the database it belongs to.

use model::{Array, Doc, DocWriter, MongoError, Result, Value, bail, code};

/// Declares a pair of a name and its database.
macro_rules! name_in_database {
    ($ident:ident, $field:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $ident {
            /// The name.
            pub name: String,
            /// Its database.
            pub db: String,
        }

        impl $ident {
            /// From a name and a database.
            pub fn new(name: &str, db: &str) -> $ident {
                $ident {
                    name: name.to_owned(),
                    db: db.to_owned(),
                }
            }

            /// Its `_id` in the collection that keeps it.
            pub fn id(&self) -> String {
                format!("{}.{}", self.db, self.name)
            }

            /// Writes both fields.
            pub fn write(&self, w: &mut DocWriter<'_>) {
                w.put($field, self.name.as_str())
                    .put("db", self.db.as_str());
            }

            /// Parses a name, which then belongs to `db`, or a document with both fields.
            ///
            /// # Errors
            /// 2 BadValue.
            pub fn parse(value: &Value<'_>, db: &str) -> Result<$ident> {
                match value {
                    Value::String("") => bail!(
                        code::BAD_VALUE,
                        concat!("The name of a ", $field, " must not be empty")
                    ),
                    Value::String(name) => Ok($ident::new(name, db)),
                    Value::Document(d) => $ident::of_doc(*d),
                    other => bail!(
                        code::BAD_VALUE,
                        concat!(
                            "The name of a ",
                            $field,
                            " must be a string or a document with the fields '",
                            $field,
                            "' and 'db', given {}"
                        ),
                        other.type_name()
                    ),
                }
            }

            /// Parses a document with exactly both fields.
            ///
            /// # Errors
            /// 2 BadValue.
            pub fn of_doc(doc: Doc<'_>) -> Result<$ident> {
                let text = |field: &str| {
                    let text = doc.field(field).as_str().filter(|s| !s.is_empty());
                    text.ok_or_else(|| {
                        MongoError::bad_value(format!(
                            concat!("The name of a ", $field, " needs the non-empty string '{}'"),
                            field
                        ))
                    })
                };
                let name = $ident::new(text($field)?, text("db")?);
                if let Some((other, _)) = doc.iter().find(|(n, _)| !matches!(*n, $field | "db")) {
                    bail!(
                        code::BAD_VALUE,
                        concat!("The name of a ", $field, " has no field '{}'"),
                        other
                    );
                }
                Ok(name)
            }
        }

        impl std::fmt::Display for $ident {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}@{}", self.name, self.db)
            }
        }
    };
}

name_in_database!(UserName, "user", "A user.");
name_in_database!(RoleName, "role", "A role.");

/// Roles in a command's argument: names of roles of `db`, or documents.
///
/// # Errors
/// 2 BadValue.
pub fn role_list(roles: Array<'_>, db: &str) -> Result<Vec<RoleName>> {
    let mut all = Vec::new();
    for value in roles.iter() {
        let name = RoleName::parse(&value, db)?;
        if !all.contains(&name) {
            all.push(name);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    #[test]
    fn names_come_as_text_or_document() {
        let d = doc! { "r": ["read", { "role": "x", "db": "other" }, "read"] };
        let roles = role_list(d.doc().field("r").as_array().unwrap(), "db").unwrap();
        assert_eq!(
            roles,
            [RoleName::new("read", "db"), RoleName::new("x", "other")]
        );
        assert_eq!(roles[1].id(), "other.x");
        for bad in [
            doc! { "role": "x" },
            doc! { "role": "x", "db": "y", "z": 1i32 },
            doc! { "role": "", "db": "y" },
            doc! { "role": 1i32, "db": "y" },
        ] {
            assert_eq!(RoleName::of_doc(bad.doc()).unwrap_err().code(), 2);
        }
        assert!(RoleName::parse(&Value::Int32(1), "db").is_err());
    }
}
