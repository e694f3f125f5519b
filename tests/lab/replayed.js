// The mongosh script that is recorded: documents of many types, finds, updates, a pipeline, an error. Ids are fixed.
const here = db.getSiblingDB("replayed");
here.shell.insertMany([...Array(500).keys()].map((n) => ({
  _id: n, long: Long.fromNumber(n), decimal: Decimal128.fromString(`${n}.5`), at: new Date(n * 1000), tags: [n % 3, `t${n % 5}`],
})));
here.shell.createIndex({ tags: 1 }, { name: "tags" });
if (here.shell.find({ tags: "t1" }).sort({ _id: 1 }).batchSize(11).toArray().length !== 100) throw new Error("100 have the tag");
here.shell.updateMany({ tags: 2 }, { $push: { tags: { $each: ["two"], $slice: -5 } } });
here.shell.findOneAndUpdate({ _id: 3 }, { $inc: { long: 1 } }, { returnDocument: "after" });
here.shell.deleteOne({ _id: 499 });
let code = 0;
try { here.shell.insertOne({ _id: 1 }); } catch (error) { code = error.code; }
if (code !== 11000) throw new Error(`a duplicate gave ${code}`);
if (here.shell.aggregate([{ $unwind: "$tags" }, { $group: { _id: "$tags", n: { $sum: 1 } } }, { $sort: { _id: 1 } }]).toArray().length < 8) throw new Error("groups");
if (here.shell.countDocuments({ at: { $lt: new Date(100000) } }) !== 100) throw new Error("dates");
