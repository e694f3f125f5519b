package smoke;

import static com.mongodb.client.model.Accumulators.sum;
import static com.mongodb.client.model.Aggregates.group;
import static com.mongodb.client.model.Aggregates.match;
import static com.mongodb.client.model.Aggregates.sort;
import static com.mongodb.client.model.Filters.and;
import static com.mongodb.client.model.Filters.eq;
import static com.mongodb.client.model.Filters.gte;
import static com.mongodb.client.model.Filters.lt;
import static com.mongodb.client.model.Filters.lte;
import static com.mongodb.client.model.Projections.fields;
import static com.mongodb.client.model.Projections.excludeId;
import static com.mongodb.client.model.Projections.include;
import static com.mongodb.client.model.Updates.combine;
import static com.mongodb.client.model.Updates.inc;
import static com.mongodb.client.model.Updates.set;

import com.mongodb.MongoWriteException;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.model.FindOneAndUpdateOptions;
import com.mongodb.client.model.IndexOptions;
import com.mongodb.client.model.Indexes;
import com.mongodb.client.model.ReturnDocument;
import com.mongodb.client.model.Sorts;
import com.mongodb.client.model.UpdateOptions;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.TreeSet;
import org.bson.Document;

/** Smoke of the official Java driver. Argument: HOST:PORT. */
public final class Smoke {
    private static final String DATABASE = "smoke_java";

    private static void equal(String what, Object given, Object expected) {
        if (!Objects.equals(given, expected)) {
            throw new IllegalStateException(what + ": given " + given + ", expected " + expected);
        }
    }

    private static MongoClient connect(String address, String options) {
        return MongoClients.create("mongodb://" + address + "/?serverSelectionTimeoutMS=10000&" + options);
    }

    private static void reads(MongoCollection<Document> items) {
        List<Document> found = items.find(and(eq("group", 3), gte("n", 100))).projection(fields(excludeId(), include("n")))
                .sort(Sorts.descending("n")).limit(2).into(new ArrayList<>());
        equal("find", found, List.of(new Document("n", 993), new Document("n", 983)));
        equal("cursor over batches", items.find().batchSize(100).into(new ArrayList<>()).size(), 1000);
        equal("count", items.countDocuments(eq("group", 1)), 100L);
        equal("distinct", items.distinct("group", lt("n", 4), Integer.class).into(new TreeSet<>()), new TreeSet<>(List.of(0, 1, 2, 3)));
        List<Document> groups = items.aggregate(List.of(match(lte("group", 1)), group("$group", sum("sum", "$n")), sort(Sorts.descending("_id"))))
                .into(new ArrayList<>());
        equal("aggregate", groups, List.of(new Document("_id", 1).append("sum", 49600), new Document("_id", 0).append("sum", 49500)));
    }

    private static void writes(MongoCollection<Document> items) {
        var one = items.updateOne(eq(7), combine(set("name", "seven"), inc("n", 1000)));
        equal("updateOne", List.of(one.getMatchedCount(), one.getModifiedCount()), List.of(1L, 1L));
        var upsert = items.updateOne(eq("new"), set("name", "new"), new UpdateOptions().upsert(true));
        equal("upsert", upsert.getUpsertedId().asString().getValue(), "new");
        Document after = items.findOneAndUpdate(eq(7), inc("n", -1000), new FindOneAndUpdateOptions().returnDocument(ReturnDocument.AFTER));
        equal("findOneAndUpdate", after, new Document("_id", 7).append("n", 7).append("group", 7).append("name", "seven"));
        equal("deleteOne", items.deleteOne(eq("new")).getDeletedCount(), 1L);
        equal("createIndex", items.createIndex(Indexes.ascending("name"), new IndexOptions().unique(true)), "name_1");
        equal("listIndexes", items.listIndexes().into(new ArrayList<>()).size(), 2);
        try {
            items.insertOne(new Document("_id", "twin").append("name", "seven"));
            throw new IllegalStateException("a unique index let a second value in");
        } catch (MongoWriteException error) {
            equal("unique violation", error.getError().getCode(), 11000);
        }
    }

    private static void walk(String address, String replicaSet) {
        try (MongoClient client = connect(address, "replicaSet=" + replicaSet)) {
            client.getDatabase(DATABASE).drop();
            MongoCollection<Document> items = client.getDatabase(DATABASE).getCollection("items");
            List<Document> documents = new ArrayList<>();
            for (int n = 0; n < 1000; n++) {
                documents.add(new Document("_id", n).append("n", n).append("group", n % 10).append("name", "item " + n));
            }
            items.insertOne(documents.get(0));
            equal("insertMany", items.insertMany(documents.subList(1, 1000)).getInsertedIds().size(), 999);
            reads(items);
            writes(items);
            equal("listCollections", client.getDatabase(DATABASE).listCollectionNames().into(new ArrayList<>()), List.of("items"));
            equal("listDatabases", client.listDatabaseNames().into(new ArrayList<>()).contains(DATABASE), true);
            items.drop();
            equal("drop", client.getDatabase(DATABASE).listCollectionNames().into(new ArrayList<>()), List.of());
            client.getDatabase(DATABASE).drop();
        }
    }

    private static long endedSessions(MongoClient client) {
        Document status = client.getDatabase("admin").runCommand(new Document("serverStatus", 1));
        Document commands = status.get("metrics", Document.class).get("commands", Document.class);
        Document count = commands.get("endSessions", Document.class);
        return count == null ? 0 : ((Number) count.get("total")).longValue();
    }

    public static void main(String[] words) {
        try (MongoClient watcher = connect(words[0], "directConnection=true")) {
            equal("ping", watcher.getDatabase("admin").runCommand(new Document("ping", 1)).get("ok"), 1.0);
            Document hello = watcher.getDatabase("admin").runCommand(new Document("hello", 1));
            long before = endedSessions(watcher);
            walk(words[0], hello.getString("setName"));
            equal("endSessions on close", endedSessions(watcher) > before, true);
        }
        System.out.println("Java driver: ok");
    }
}
