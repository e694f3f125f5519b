//! `mapReduce`: refused, because its functions are JavaScript. The arguments are checked first, as
//! a server without the engine does.

use crate::dispatch::args::{Kind, arg};
use crate::dispatch::command::Command;
use crate::dispatch::spec::{Privilege, flag};
use model::{Tag, bail};

const FUNCTION: Kind = Kind::OneOf(&[Tag::STRING, Tag::CODE, Tag::CODE_WITH_SCOPE]);

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "mapReduce",
    "documents that go through functions in JavaScript; not run here",
    Privilege::Asked(crate::access::needs::map_reduce),
    flag::READ_CONCERN | flag::WRITE_CONCERN,
    &[
        arg("map", FUNCTION).required(),
        arg("reduce", FUNCTION).required(),
        arg("out", Kind::OneOf(&[Tag::STRING, Tag::DOCUMENT])).required(),
        arg("finalize", FUNCTION),
        arg("query", Kind::Object),
        arg("sort", Kind::Object),
        arg("limit", Kind::Number),
        arg("collation", Kind::Object),
        arg("scope", Kind::Object),
        arg("let", Kind::Object),
        arg("jsMode", Kind::BoolLike),
        arg("verbose", Kind::BoolLike),
        arg("bypassDocumentValidation", Kind::BoolLike),
    ],
    |_| {
        bail!(
            31264,
            "mapReduce cannot run without the javascript engine enabled: write it as an \
                    aggregation pipeline"
        )
    },
)
.aliases(&["mapreduce"])
.value(Kind::Collection)];
