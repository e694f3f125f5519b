// Liquibase's extension: its lock and list of changes, a collection with a validator, an index, documents, a command; run twice, rolled back.

import com.mongodb.client.MongoClients;
import com.mongodb.client.model.Filters;
import java.nio.file.Path;
import liquibase.Contexts;
import liquibase.LabelExpression;
import liquibase.Liquibase;
import liquibase.database.DatabaseFactory;
import liquibase.resource.DirectoryResourceAccessor;
import org.bson.Document;

public class Check {
  static void check(boolean holds, String what) {
    if (!holds) throw new AssertionError("not so: " + what);
  }

  static String version(Class<?> one) {
    return one.getProtectionDomain().getCodeSource().getLocation().getPath().replaceAll(".*/(.*)-([0-9][^-]*)\\.jar", "$1 $2");
  }

  public static void main(String[] arguments) throws Exception {
    System.out.println("VERSION " + version(Liquibase.class));
    System.out.println("VERSION " + version(liquibase.ext.mongodb.database.MongoLiquibaseDatabase.class));
    String uri = "mongodb://" + arguments[0] + "/liquibase?replicaSet=rs0";
    try (var client = MongoClients.create(uri)) {
      var data = client.getDatabase("liquibase");
      data.drop();
      var folder = new DirectoryResourceAccessor(Path.of(arguments[1]));
      for (int round = 0; round < 2; round++) {
        var database = DatabaseFactory.getInstance().openDatabase(uri, null, null, null, null);
        try (var liquibase = new Liquibase("changes.xml", folder, database)) {
          check(liquibase.listUnrunChangeSets(new Contexts(), new LabelExpression()).size() == (round == 0 ? 3 : 0), "what is left to run");
          liquibase.update(new Contexts());
          check(data.getCollection("people").countDocuments() == 3, "three people, by either run");
          check(data.getCollection("people").countDocuments(Filters.eq("senior", true)) == 2, "the command ran");
          check(data.getCollection("DATABASECHANGELOG").countDocuments() == 3, "three changes are listed");
          check(data.getCollection("DATABASECHANGELOGLOCK").countDocuments(Filters.eq("locked", true)) == 0, "the lock is free");
          if (round == 1) liquibase.rollback(1, "");
        }
      }
      check(data.getCollection("people").countDocuments(Filters.exists("senior")) == 0, "rolled back");
      check(data.getCollection("DATABASECHANGELOG").countDocuments() == 2, "two changes are left");
      var index = data.getCollection("people").listIndexes().into(new java.util.ArrayList<Document>()).get(1);
      check(index.getString("name").equals("by_name") && index.getBoolean("unique"), "the index: " + index);
      try {
        data.getCollection("people").insertOne(new Document("age", 1));
        check(false, "the validator refuses");
      } catch (com.mongodb.MongoWriteException error) {
        check(error.getCode() == 121, "code 121");
      }
    }
    System.out.println("liquibase: ok");
  }
}
