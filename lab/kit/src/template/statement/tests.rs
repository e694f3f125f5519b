//! Statements as files have them, and what is drawn of them.

use super::*;
use crate::seed::from;

fn compile(text: &str) -> Result<Statement, TemplateError> {
    toml::from_str::<StatementFile>(text).unwrap().compile()
}

fn draw(statement: &Statement) -> StatementCall {
    statement.draw(
        0,
        &mut DrawContext {
            random: &mut from(1),
            number: 1,
            rows: 10,
            client: 3,
            sequence: 7,
            now_ms: 0,
            variables: &Variables::new(),
            existing: &mut |_, _| Tree::Int(4),
        },
    )
}

#[test]
fn a_transfer_draws_its_values_once() {
    let statement = compile(
        r#"
        name = "transfer"
        let = { from = "@int(1, 100)", to = "@int(1, 100)", sum = "@int(1, 10)" }
        [[transaction]]
        update = { _id = "@var(from)", balance = { "$gte" = "@var(sum)" } }
        change = { "$inc" = { balance = "@int(-9, -9)" } }
        must_match = true
        [[transaction]]
        update = { _id = "@var(to)" }
        change = { "$inc" = { balance = "@var(sum)" } }
        "#,
    )
    .unwrap();
    assert!(statement.counts());
    let Command::Transaction(parts) = draw(&statement).command else {
        panic!();
    };
    assert!(parts[0].2 && !parts[1].2);
    let (DatabaseAction::Update { filter, .. }, DatabaseAction::Update { change, .. }) =
        (&parts[0].1, &parts[1].1)
    else {
        panic!();
    };
    let Tree::Object(filter) = filter else {
        panic!()
    };
    let Tree::Object(guard) = &filter[1].1 else {
        panic!()
    };
    let Tree::Object(change) = change else {
        panic!()
    };
    let Tree::Object(inc) = &change[0].1 else {
        panic!()
    };
    assert_eq!(guard[0].1, inc[0].1, "the sum is one and the same");
}

#[test]
fn what_each_kind_means_for_the_count() {
    for (text, inserts, deletes, counts) in [
        ("insert = { a = 1 }", 1, false, true),
        ("insert = [{ a = 1 }, { a = 2 }]", 2, false, true),
        ("insert = { a = 1 }\ncollection = \"other\"", 0, false, true),
        ("delete = { a = 1 }\nmany = true", 0, true, true),
        (
            "update = { a = 1 }\nchange = { \"$set\" = { b = 1 } }\nupsert = true",
            0,
            false,
            false,
        ),
        ("aggregate = [{ \"$out\" = \"c\" }]", 0, false, false),
        ("aggregate = [{ \"$match\" = {} }]", 0, false, true),
        (
            "command = { findAndModify = \"c\", query = {} }",
            0,
            false,
            true,
        ),
        (
            "command = { findAndModify = \"c\", remove = true }",
            0,
            false,
            false,
        ),
        ("command = { drop = \"c\" }", 0, false, false),
        ("connect = true", 0, false, true),
    ] {
        let statement = compile(&format!("name = \"x\"\n{text}")).unwrap();
        let call = draw(&statement);
        assert_eq!(
            (call.inserts, call.deletes, statement.counts()),
            (inserts, deletes, counts),
            "{text}"
        );
    }
}

#[test]
fn mistakes_in_a_statement_are_reported_with_their_reason() {
    for (text, reason) in [
        ("find = {}\ndelete = {}", "it has 2 of find"),
        ("", "it has 0 of find"),
        ("update = {}", "needs change"),
        ("find = {}\nmany = true", "many has no use"),
        ("delete = {}\nlimit = 1", "limit has no use"),
        ("find = { a = \"@var(b)\" }", "let gives"),
        ("find = { a = \"@nix()\" }", "no such generator"),
        ("transaction = []", "a list of statements"),
    ] {
        let error = compile(&format!("name = \"x\"\n{text}")).unwrap_err();
        assert!(error.reason.contains(reason), "{text}: {}", error.reason);
    }
}
