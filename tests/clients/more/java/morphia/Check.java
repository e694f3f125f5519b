// Morphia: indexes of annotations, queries, updates, an aggregation, a version field, a transaction that is ended both ways.

import static dev.morphia.aggregation.expressions.AccumulatorExpressions.sum;
import static dev.morphia.aggregation.expressions.Expressions.field;
import static dev.morphia.aggregation.stages.Group.group;
import static dev.morphia.aggregation.stages.Group.id;
import static dev.morphia.query.filters.Filters.eq;
import static dev.morphia.query.filters.Filters.gt;
import static dev.morphia.query.updates.UpdateOperators.inc;

import com.mongodb.MongoWriteException;
import com.mongodb.client.MongoClients;
import dev.morphia.Datastore;
import dev.morphia.Morphia;
import dev.morphia.UpdateOptions;
import dev.morphia.VersionMismatchException;
import dev.morphia.annotations.Entity;
import dev.morphia.annotations.Id;
import dev.morphia.annotations.IndexOptions;
import dev.morphia.annotations.Indexed;
import dev.morphia.annotations.Version;
import java.util.List;
import org.bson.Document;
import org.bson.types.ObjectId;

public class Check {
  @Entity("people")
  public static class Person {
    @Id public ObjectId id;
    @Indexed(options = @IndexOptions(unique = true)) public String mail;
    public String kind;
    public int amount;
    @Version public long version;

    public Person() {}

    Person(String mail, String kind, int amount) {
      this.mail = mail;
      this.kind = kind;
      this.amount = amount;
    }
  }

  static void check(boolean holds, String what) {
    if (!holds) throw new AssertionError("not so: " + what);
  }

  public static void main(String[] arguments) {
    System.out.println("VERSION morphia-core " + Datastore.class.getProtectionDomain().getCodeSource().getLocation().getPath().replaceAll(".*morphia-core-(.*)\\.jar", "$1"));
    try (var client = MongoClients.create("mongodb://" + arguments[0] + "/?replicaSet=rs0")) {
      client.getDatabase("morphia").drop();
      Datastore store = Morphia.createDatastore(client, "morphia");
      store.getMapper().map(Person.class);
      store.ensureIndexes();
      store.save(List.of(new Person("a", "x", 1), new Person("b", "x", 2), new Person("c", "y", 4)));
      try {
        store.insert(new Person("a", "z", 0));
        check(false, "a duplicate is refused");
      } catch (MongoWriteException error) {
        check(error.getCode() == 11000, "code 11000");
      }
      check(store.find(Person.class).filter(eq("kind", "x"), gt("amount", 1)).first().mail.equals("b"), "a query by two filters");
      check(store.find(Person.class).filter(eq("kind", "x")).update(new UpdateOptions().multi(true), inc("amount", 10)).getModifiedCount() == 2, "two updated");
      var sums = store.aggregate(Person.class).group(group(id("kind")).field("total", sum(field("amount")))).execute(Document.class).toList();
      check(sums.size() == 2 && sums.stream().allMatch(row -> row.getInteger("total") == (row.get("_id").toString().contains("x") ? 23 : 4)), "sums: " + sums);
      Person first = store.find(Person.class).filter(eq("mail", "c")).first();
      Person second = store.find(Person.class).filter(eq("mail", "c")).first();
      store.save(first);
      try {
        store.save(second);
        check(false, "an old version is refused");
      } catch (VersionMismatchException expected) {
        check(true, "refused");
      }
      try {
        store.withTransaction(session -> {
          session.save(new Person("rolled back", "t", 0));
          throw new IllegalStateException("on purpose");
        });
      } catch (RuntimeException expected) {
        check(String.valueOf(expected).contains("on purpose"), "the failure: " + expected);
      }
      store.withTransaction(session -> session.save(new Person("kept", "t", 0)));
      check(store.find(Person.class).filter(eq("kind", "t")).iterator().toList().stream().map(person -> person.mail).toList().equals(List.of("kept")), "what was committed");
      client.getDatabase("morphia").drop();
    }
  }
}
