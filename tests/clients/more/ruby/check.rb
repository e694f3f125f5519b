# The Ruby driver as Debian has it: writes, a cursor of several batches, an aggregation, a duplicate key, an index.
require "mongo"

def check(holds, what) = holds || abort("not so: #{what}")

puts "VERSION ruby #{RUBY_VERSION}", "VERSION mongo #{Mongo::VERSION}"
Mongo::Logger.logger.level = ::Logger::WARN
# Not by URI: this version reads one by a function that Ruby 3 no longer has.
client = Mongo::Client.new([ARGV[0]], database: "ruby", replica_set: "rs0")
client.database.drop
items = client[:items]
check items.insert_many((0...1000).map { |i| { _id: i, group: i % 10, amount: i / 4.0 } }).inserted_count == 1000, "a thousand inserted"
rows = items.find({ group: 3 }, sort: { _id: -1 }, batch_size: 7).to_a
check rows.length == 100 && rows.first["_id"] == 993 && rows.last["_id"] == 3, "a cursor of several batches"
sums = items.aggregate([{ "$group" => { _id: "$group", sum: { "$sum" => "$amount" } } }, { "$sort" => { _id: 1 } }]).to_a
check sums.length == 10 && sums[0]["sum"] == (0..990).step(10).sum / 4.0, "sums by group"
begin
  items.insert_one(_id: 1)
  abort "a duplicate key is refused"
rescue Mongo::Error::OperationFailure => error
  check error.message.include?("E11000"), error.message
end
check items.update_many({ group: 1 }, "$inc" => { amount: 1 }).modified_count == 100, "a hundred modified"
check items.find_one_and_update({ _id: 5 }, { "$set" => { found: true } }, return_document: :after)["found"], "the document after the update"
items.indexes.create_one({ group: 1 }, unique: false)
check items.indexes.map { |index| index["name"] } == %w[_id_ group_1], "two indexes"
client.database.drop
client.close
