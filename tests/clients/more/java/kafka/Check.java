// The MongoDB connector for Kafka without a broker: its two tasks are driven as Connect would drive them.

import com.mongodb.client.MongoClients;
import com.mongodb.kafka.connect.sink.MongoSinkTask;
import com.mongodb.kafka.connect.source.MongoSourceTask;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;
import org.bson.Document;

public class Check {
  static void check(boolean holds, String what) {
    if (!holds) throw new AssertionError("not so: " + what);
  }

  /** The offsets that Connect would keep for the source. */
  static class Offsets implements OffsetStorageReader {
    Map<String, Object> last;

    @Override
    public <T> Map<String, Object> offset(Map<String, T> partition) {
      return last;
    }

    @Override
    public <T> Map<Map<String, T>, Map<String, Object>> offsets(Collection<Map<String, T>> partitions) {
      Map<Map<String, T>, Map<String, Object>> all = new HashMap<>();
      for (Map<String, T> partition : partitions) all.put(partition, last);
      return all;
    }
  }

  static MongoSourceTask startSource(Map<String, String> settings, Offsets offsets) {
    MongoSourceTask task = new MongoSourceTask();
    task.initialize(
        (SourceTaskContext)
            java.lang.reflect.Proxy.newProxyInstance(
                Check.class.getClassLoader(),
                new Class<?>[] {SourceTaskContext.class},
                (proxy, method, arguments) ->
                    switch (method.getName()) {
                      case "offsetStorageReader" -> offsets;
                      case "configs" -> settings;
                      default -> null;
                    }));
    task.start(settings);
    return task;
  }

  @SuppressWarnings("unchecked")
  static List<Document> read(MongoSourceTask task, Offsets offsets, int wanted) throws Exception {
    List<Document> read = new ArrayList<>();
    long end = System.nanoTime() + 60_000_000_000L;
    while (read.size() < wanted) {
      check(System.nanoTime() < end, read.size() + " of " + wanted + " records in a minute");
      List<SourceRecord> records = task.poll();
      if (records == null) continue;
      for (SourceRecord record : records) {
        read.add(Document.parse((String) record.value()));
        offsets.last = (Map<String, Object>) record.sourceOffset();
      }
    }
    check(read.size() == wanted, read.size() + " records, not " + wanted);
    return read;
  }

  static SinkRecord record(long offset, String key, String value) {
    return new SinkRecord("people", 0, Schema.STRING_SCHEMA, key, value == null ? null : Schema.STRING_SCHEMA, value, offset);
  }

  public static void main(String[] arguments) throws Exception {
    System.out.println("VERSION mongo-kafka-connect " + new MongoSinkTask().version());
    String uri = "mongodb://" + arguments[0] + "/?replicaSet=rs0";
    try (var client = MongoClients.create(uri)) {
      client.getDatabase("kafka").drop();
      var people = client.getDatabase("kafka").getCollection("people");

      Map<String, String> sinkSettings = new HashMap<>(Map.of("connection.uri", uri, "database", "kafka", "collection", "people", "topics", "people"));
      sinkSettings.put("document.id.strategy", "com.mongodb.kafka.connect.sink.processor.id.strategy.ProvidedInKeyStrategy");
      sinkSettings.put("delete.on.null.values", "true");
      MongoSinkTask sink = new MongoSinkTask();
      sink.start(sinkSettings);
      List<SinkRecord> records = new ArrayList<>();
      for (int i = 0; i < 100; i++) records.add(record(i, "{\"_id\": " + i + "}", "{\"_id\": " + i + ", \"n\": " + i + "}"));
      sink.put(records);
      sink.put(List.of(record(100, "{\"_id\": 1}", "{\"_id\": 1, \"n\": \"replaced\"}"), record(101, "{\"_id\": 2}", null)));
      sink.flush(Map.of());
      sink.stop();
      check(people.countDocuments() == 99, "99 documents by the sink");
      check("replaced".equals(people.find(new Document("_id", 1)).first().get("n")), "a document is replaced");

      Map<String, String> settings = new HashMap<>(Map.of("connection.uri", uri, "database", "kafka", "collection", "people"));
      settings.put("startup.mode", "copy_existing");
      settings.put("output.format.value", "json");
      settings.put("poll.await.time.ms", "500");
      Offsets offsets = new Offsets();
      MongoSourceTask source = startSource(settings, offsets);
      check(read(source, offsets, 99).stream().allMatch(event -> event.getString("operationType").equals("insert")), "the copy is inserts");
      people.insertOne(new Document("_id", "new"));
      people.updateOne(new Document("_id", "new"), new Document("$set", new Document("n", 1)));
      people.deleteOne(new Document("_id", "new"));
      check(read(source, offsets, 3).stream().map(event -> event.getString("operationType")).toList().equals(List.of("insert", "update", "delete")), "three changes in order");
      source.stop();
      people.insertOne(new Document("_id", "while stopped"));
      source = startSource(settings, offsets);
      Document event = read(source, offsets, 1).get(0);
      check(event.get("documentKey", Document.class).get("_id").equals("while stopped"), "it goes on from its offset: " + event.toJson());
      source.stop();
      client.getDatabase("kafka").drop();
    }
    System.exit(0);
  }
}
