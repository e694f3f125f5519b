//! The fields of the document that a filter reads, from its tree.

use super::geo::Geo;
use super::node::{Node, Test};
use crate::RequiredFields;

impl Node {
    /// Adds the fields that the filter reads.
    pub fn reads(&self, reads: &mut RequiredFields) {
        self.visit(&mut |n| match n {
            Node::AlwaysTrue
            | Node::AlwaysFalse
            | Node::And(_)
            | Node::Or(_)
            | Node::Nor(_)
            | Node::Not(_) => {}
            // A test that orders by distance is more than a filter.
            Node::Field {
                test: Test::Geo(geo),
                ..
            } if matches!(**geo, Geo::Near(_)) => reads.add_everything(),
            Node::Field { path, .. } => reads.add_path(path),
            Node::Expr(e) => e.reads(reads),
            Node::JsonSchema(_) | Node::SampleRate(_) | Node::Where(_) | Node::Text(_) => {
                reads.add_everything();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Env;
    use crate::expr::ParseCx;
    use crate::expr::check::json;
    use crate::filter::Filter;

    /// The names, separated by spaces; `all` when any field may be read.
    fn names(reads: RequiredFields) -> String {
        let names = reads.names();
        names.map_or("all".to_owned(), |n| {
            n.into_iter().collect::<Vec<_>>().join(" ")
        })
    }

    #[test]
    fn fields_of_filters() {
        for (text, wanted) in [
            ("{}", ""),
            ("{'a.b': 1, 'c': {'$gt': 1}}", "a c"),
            (
                "{'$or': [{'a': 1}, {'$nor': [{'b': {'$elemMatch': {'x': 1}}}]}]}",
                "a b",
            ),
            ("{'a': {'$not': {'$in': [1]}}, '$comment': 'c'}", "a"),
            ("{'$expr': {'$eq': ['$a', '$b']}}", "a b"),
            ("{'$expr': '$$ROOT'}", "all"),
            ("{'$sampleRate': 0.5}", "all"),
            ("{'$jsonSchema': {'required': ['a']}}", "all"),
            ("{'a': {'$near': [0, 0]}}", "all"),
        ] {
            let env = Env::new(0, 1);
            let spec = json(text);
            let spec = spec.get().as_doc().expect(text);
            let f = Filter::parse(&mut ParseCx::of_query(&env), spec).expect(text);
            let mut reads = RequiredFields::default();
            f.root().reads(&mut reads);
            assert_eq!(names(reads), wanted, "{text}");
        }
    }
}
