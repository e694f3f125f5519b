package smoke;

import com.mongodb.ConnectionString;
import com.mongodb.MongoClientSettings;
import com.mongodb.client.MongoClients;
import com.mongodb.event.CommandListener;
import com.mongodb.event.CommandStartedEvent;
import java.io.FileInputStream;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.bson.Document;

/** Writes and reads by a URI as it is. Arguments: URI ADDRESS [CA_FILE]; the driver must end up at ADDRESS. */
public final class Plain {
  static SSLContext trusting(String file) throws Exception {
    var store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null);
    try (var input = new FileInputStream(file)) {
      store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(input));
    }
    var factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    factory.init(store);
    var context = SSLContext.getInstance("TLS");
    context.init(null, factory.getTrustManagers(), null);
    return context;
  }

  public static void main(String[] arguments) throws Exception {
    Set<String> used = ConcurrentHashMap.newKeySet();
    var settings = MongoClientSettings.builder()
        .applyConnectionString(new ConnectionString(arguments[0]))
        .applyToClusterSettings(cluster -> cluster.serverSelectionTimeout(10, TimeUnit.SECONDS))
        .addCommandListener(new CommandListener() {
          @Override
          public void commandStarted(CommandStartedEvent event) {
            used.add(event.getConnectionDescription().getServerAddress().toString());
          }
        });
    if (arguments.length > 2) {
      var context = trusting(arguments[2]);
      settings.applyToSslSettings(ssl -> ssl.enabled(true).context(context));
    }
    try (var client = MongoClients.create(settings.build())) {
      var items = client.getDatabase("elsewhere").getCollection("java");
      items.drop();
      try (var session = client.startSession()) {
        session.withTransaction(() -> items.insertOne(session, new Document("_id", 1)));
      }
      if (items.countDocuments() != 1) {
        throw new AssertionError("what was inserted is not there");
      }
    }
    if (!used.equals(Set.of(arguments[1]))) {
      throw new AssertionError("it went from " + arguments[0] + " to " + used);
    }
  }
}
