package debezium;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.debezium.embedded.Connect;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.DebeziumEngine.RecordCommitter;
import io.debezium.engine.RecordChangeEvent;
import io.debezium.engine.format.ChangeEventFormat;
import java.io.IOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Debezium's embedded engine with the MongoDB connector. Each event becomes one line of JSON in EVENTS, and only then is its
 * offset committed and flushed, for every event by itself. Knows nothing of what is written to the collection. Ends well when
 * its standard input ends; a second run with the same OFFSETS goes on after the last line.
 *
 * <p>Arguments: CONNECTION_STRING COLLECTION OFFSETS EVENTS.
 */
public final class Consumer {
    private static final ObjectMapper JSON = new ObjectMapper();

    private static Properties properties(String connection, String collection, String offsets) {
        Properties properties = new Properties();
        properties.put("name", "quarry");
        properties.put("connector.class", "io.debezium.connector.mongodb.MongoDbConnector");
        properties.put("mongodb.connection.string", connection);
        properties.put("collection.include.list", collection);
        properties.put("topic.prefix", "quarry");
        properties.put("tombstones.on.delete", "false");
        properties.put("offset.storage", "org.apache.kafka.connect.storage.FileOffsetBackingStore");
        properties.put("offset.storage.file.filename", offsets);
        properties.put("offset.flush.interval.ms", "0");
        // After an error that may pass the connector starts again from the last committed offset; the default wait is 10 s.
        properties.put("retriable.restart.connector.wait.ms", "500");
        return properties;
    }

    private static Map<String, Object> update(Struct described) {
        List<Map<String, Object>> truncated = new ArrayList<>();
        List<Struct> arrays = described.getArray("truncatedArrays");
        for (Struct array : arrays == null ? List.<Struct>of() : arrays) {
            truncated.add(Map.of("field", array.getString("field"), "size", array.getInt32("size")));
        }
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("updated", described.getString("updatedFields"));
        line.put("removed", described.getArray("removedFields"));
        line.put("truncated", truncated);
        return line;
    }

    private static String line(SourceRecord record) throws IOException {
        Struct value = (Struct) record.value();
        Struct described = value.getStruct("updateDescription");
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("op", value.getString("op"));
        line.put("id", ((Struct) record.key()).getString("id"));
        line.put("after", value.getString("after"));
        line.put("update", described == null ? null : update(described));
        line.put("snapshot", value.getStruct("source").getString("snapshot"));
        line.put("offset", record.sourceOffset());
        return JSON.writeValueAsString(line);
    }

    private static void handle(
            List<RecordChangeEvent<SourceRecord>> events, RecordCommitter<RecordChangeEvent<SourceRecord>> committer, Writer out)
            throws InterruptedException {
        for (RecordChangeEvent<SourceRecord> event : events) {
            try {
                out.write(line(event.record()) + "\n");
                out.flush();
            } catch (IOException | RuntimeException error) {
                throw new IllegalStateException("event " + event.record(), error);
            }
            committer.markProcessed(event);
            committer.markBatchFinished();
        }
    }

    public static void main(String[] arguments) throws Exception {
        try (Writer out = Files.newBufferedWriter(Path.of(arguments[3]), StandardOpenOption.CREATE, StandardOpenOption.APPEND)) {
            DebeziumEngine<RecordChangeEvent<SourceRecord>> engine = DebeziumEngine.create(ChangeEventFormat.of(Connect.class))
                    .using(properties(arguments[0], arguments[1], arguments[2]))
                    .using((success, message, error) -> {
                        System.err.println("engine ended, success " + success + ": " + message);
                        // Nobody would read standard input any more.
                        if (!success) {
                            Runtime.getRuntime().halt(1);
                        }
                    })
                    .notifying((events, committer) -> handle(events, committer, out))
                    .build();
            Thread running = new Thread(engine);
            running.start();
            while (System.in.read() >= 0) {
                // Only the end of the input says something.
            }
            engine.close();
            running.join();
        }
    }
}
