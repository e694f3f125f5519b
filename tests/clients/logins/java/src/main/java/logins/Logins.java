package logins;

import com.mongodb.ConnectionString;
import com.mongodb.MongoClientSettings;
import com.mongodb.MongoCommandException;
import com.mongodb.MongoException;
import com.mongodb.MongoSecurityException;
import com.mongodb.MongoSocketException;
import com.mongodb.MongoTimeoutException;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoDatabase;
import com.mongodb.internal.build.MongoDriverVersion;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Objects;
import java.util.stream.Collectors;
import org.bson.Document;
import org.bson.types.ObjectId;

/**
 * Logs in as cases.json says, with the official Java driver. Arguments: CASES PART HOST:PORT FOLDER. The same program as
 * python/logins.py, which says what is printed.
 */
public final class Logins {
    private Logins() {}

    private static String quote(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }

    private static String uri(Document given, String address) {
        String[] parts = address.split(":");
        StringBuilder options = new StringBuilder("appName=logins-java&serverSelectionTimeoutMS=3000&maxPoolSize=1&");
        options.append(given.get("query", "directConnection=true")).append("&tls=").append(given.get("tls", true));
        if (given.containsKey("mechanism")) {
            options.append("&authMechanism=").append(given.getString("mechanism"));
        }
        String login = "";
        if (given.containsKey("user")) {
            boolean secret = given.containsKey("password");
            login = quote(given.getString("user")) + (secret ? ":" + quote(given.getString("password")) : "") + "@";
            options.append("&authSource=").append(quote(secret ? given.get("source", "admin") : "$external"));
        }
        return "mongodb://" + login + given.get("host", parts[0]) + ":" + parts[1] + "/?" + options;
    }

    private static MongoClient connect(Document given, String address, Path folder) throws Exception {
        var settings = MongoClientSettings.builder().applyConnectionString(new ConnectionString(uri(given, address)));
        if (given.get("tls", true)) {
            Path own = given.containsKey("certificate") ? folder.resolve(given.getString("certificate")) : null;
            var context = Certificates.context(folder.resolve(given.get("ca", "ca.pem")), own, given.get("insist", false));
            settings.applyToSslSettings(ssl -> ssl.enabled(true).context(context));
        }
        return MongoClients.create(settings.build());
    }

    private static int connectionId(MongoClient client) {
        return client.getDatabase("admin").runCommand(new Document("hello", 1)).get("connectionId", Number.class).intValue();
    }

    private static String okIf(boolean good, String otherwise) {
        return good ? "ok" : otherwise;
    }

    private static String who(MongoDatabase admin) {
        Document status = admin.runCommand(new Document("connectionStatus", 1)).get("authInfo", Document.class);
        return status.getList("authenticatedUsers", Document.class).stream()
                .map(user -> user.getString("user") + "@" + user.getString("db")).collect(Collectors.joining(" "));
    }

    private static String act(MongoClient client, String step, int heldId) {
        MongoDatabase admin = client.getDatabase("admin");
        MongoCollection<Document> items = client.getDatabase("logins").getCollection("items");
        switch (step) {
            case "who":
                return who(admin);
            case "find":
                Document found = items.find(new Document("_id", "seed")).first();
                return okIf(Objects.equals(found, new Document("_id", "seed").append("n", 1)), "another document");
            case "insert":
                ObjectId key = new ObjectId();
                items.insertOne(new Document("_id", key).append("by", "java"));
                return okIf(items.countDocuments(new Document("_id", key)) == 1, "not inserted");
            case "elsewhere":
                client.getDatabase("elsewhere").getCollection("items").find().first();
                return "ok";
            case "rotate":
                admin.runCommand(new Document("rotateCertificates", 1));
                return "ok";
            case "same":
                return okIf(connectionId(client) == heldId, "another connection");
            default:
                return "no such step";
        }
    }

    /** What came of a step: its own word, the code of the server's error, or that there was no connection. */
    private static String[] outcome(MongoClient client, String step, int heldId) {
        try {
            return new String[] {act(client, step, heldId), ""};
        } catch (MongoSecurityException error) {
            boolean answered = error.getCause() instanceof MongoCommandException;
            String code = answered ? String.valueOf(((MongoCommandException) error.getCause()).getErrorCode()) : "no answer";
            return new String[] {code, error.getMessage() + ": " + error.getCause()};
        } catch (MongoTimeoutException | MongoSocketException error) {
            return new String[] {"refused", error.getMessage()};
        } catch (MongoException error) {
            return new String[] {String.valueOf(error.getCode()), error.getMessage()};
        }
    }

    private static int run(Path cases, String part, String address, Path folder) throws Exception {
        Document root = new Document("user", "root").append("password", "pass-root").append("ca", "both-ca.pem");
        if (part.equals("strict")) {
            root.append("certificate", "stranger.pem");
        }
        int count = 0;
        int wrong = 0;
        try (MongoClient held = connect(root, address, folder)) {
            int heldId = connectionId(held);
            for (Document given : Document.parse(Files.readString(cases)).getList(part, Document.class)) {
                if (given.containsKey("install")) {
                    Path from = folder.resolve(given.getString("install"));
                    Files.copy(from, folder.resolve("server.pem"), StandardCopyOption.REPLACE_EXISTING);
                }
                MongoClient client = given.get("held", false) ? held : connect(given, address, folder);
                for (Object pair : given.getList("steps", Object.class)) {
                    String step = (String) ((List<?>) pair).get(0);
                    String expected = (String) ((List<?>) pair).get(1);
                    String[] came = outcome(client, step, heldId);
                    count++;
                    boolean good = came[0].equals(expected);
                    wrong += good ? 0 : 1;
                    String verdict = good ? "ok" : "WRONG, expected " + expected;
                    String line = "  %s: %s: %s: %s %.300s".formatted(verdict, given.getString("name"), step, came[0], came[1]);
                    System.out.println(line.stripTrailing());
                }
                if (client != held) {
                    client.close();
                }
            }
        }
        System.out.printf("Java driver %s: %d steps, %d wrong%n", MongoDriverVersion.VERSION, count, wrong);
        return wrong;
    }

    public static void main(String[] words) throws Exception {
        if (words.length == 4) {
            int wrong = run(Path.of(words[0]), words[1], words[2], Path.of(words[3]));
            System.exit(wrong == 0 ? 0 : 1);
        }
        System.out.println("Java driver " + MongoDriverVersion.VERSION + "; usage: CASES PART HOST:PORT FOLDER");
    }
}
