// Spring Data MongoDB, reactive: saves, queries, an aggregation, an upsert, a unique index, transactions ended both ways, a change stream, a tailable cursor.

import com.mongodb.reactivestreams.client.MongoClients;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.bson.Document;
import org.springframework.dao.DuplicateKeyException;
import org.springframework.data.annotation.Id;
import org.springframework.data.domain.Sort;
import org.springframework.data.mongodb.ReactiveMongoTransactionManager;
import org.springframework.data.mongodb.core.CollectionOptions;
import org.springframework.data.mongodb.core.ReactiveMongoTemplate;
import org.springframework.data.mongodb.core.SimpleReactiveMongoDatabaseFactory;
import org.springframework.data.mongodb.core.aggregation.Aggregation;
import org.springframework.data.mongodb.core.index.Index;
import org.springframework.data.mongodb.core.query.Criteria;
import org.springframework.data.mongodb.core.query.Query;
import org.springframework.data.mongodb.core.query.Update;
import org.springframework.transaction.reactive.TransactionalOperator;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

public class Check {
  public static class Order {
    @Id public String id;
    public String customer;
    public int amount;

    public Order() {}

    Order(String id, String customer, int amount) {
      this.id = id;
      this.customer = customer;
      this.amount = amount;
    }
  }

  static final Duration SOON = Duration.ofSeconds(20);

  static void check(boolean holds, String what) {
    if (!holds) throw new AssertionError("not so: " + what);
  }

  static String version(Class<?> one) {
    return one.getProtectionDomain().getCodeSource().getLocation().getPath().replaceAll(".*/(.*)-([0-9][^-]*)\\.jar", "$1 $2");
  }

  public static void main(String[] arguments) throws Exception {
    System.out.println("VERSION " + version(ReactiveMongoTemplate.class));
    System.out.println("VERSION " + version(MongoClients.class));
    try (var client = MongoClients.create("mongodb://" + arguments[0] + "/?replicaSet=rs0")) {
      var factory = new SimpleReactiveMongoDatabaseFactory(client, "spring_reactive");
      var template = new ReactiveMongoTemplate(factory);
      Mono.from(template.getMongoDatabase().block(SOON).drop()).block(SOON);
      template.createCollection(Order.class).block(SOON);
      readAndWrite(template);
      transactions(template, TransactionalOperator.create(new ReactiveMongoTransactionManager(factory)));
      changes(template);
      tail(template);
    }
    System.out.println("spring-reactive: ok");
    System.exit(0);
  }

  static void readAndWrite(ReactiveMongoTemplate template) {
    template.insertAll(Flux.range(0, 1000).map(n -> new Order("o" + n, n % 2 == 0 ? "ann" : "bob", n)).collectList(), Order.class).blockLast(SOON);
    check(template.count(new Query(), Order.class).block(SOON) == 1000, "1,000 saved");
    var query = Query.query(Criteria.where("customer").is("ann").and("amount").gte(990)).with(Sort.by("amount").descending());
    check(template.find(query, Order.class).map(order -> order.amount).collectList().block(SOON).equals(List.of(998, 996, 994, 992, 990)), "a find in order");
    check(template.findAll(Order.class).take(350).count().block(SOON) == 350, "a cursor left early");
    var sums = Aggregation.newAggregation(Aggregation.group("customer").sum("amount").as("total"), Aggregation.sort(Sort.by("_id")));
    var totals = template.aggregate(sums, "order", Document.class).map(row -> row.getInteger("total")).collectList().block(SOON);
    check(totals.equals(List.of(249_500, 250_000)), "an aggregation: " + totals);
    var upserted = template.upsert(Query.query(Criteria.where("_id").is("new")), new Update().set("customer", "cid").inc("amount", 3), Order.class).block(SOON);
    check(upserted.getUpsertedId() != null, "an upsert");
    var after = template.findAndModify(Query.query(Criteria.where("_id").is("new")), new Update().inc("amount", 4000), Order.class).block(SOON);
    check(after.amount == 3, "findAndModify returns what was");
    template.indexOps(Order.class).createIndex(new Index("amount", Sort.Direction.ASC).unique()).block(SOON);
    try {
      template.insert(new Order("other", "dan", 10)).block(SOON);
      check(false, "a duplicate is refused");
    } catch (DuplicateKeyException expected) {
      // As it must be.
    }
    check(template.remove(Query.query(Criteria.where("amount").lt(10).and("customer").is("bob")), Order.class).block(SOON).getDeletedCount() == 5, "5 removed");
  }

  static void transactions(ReactiveMongoTemplate template, TransactionalOperator operator) {
    operator.transactional(template.insert(new Order("t1", "eve", 5001)).then(template.insert(new Order("t2", "eve", 5002)))).block(SOON);
    Mono<Order> failing = template.insert(new Order("t3", "eve", 5003)).then(Mono.error(new IllegalStateException("given up")));
    try {
      operator.transactional(failing).block(SOON);
      check(false, "the error arrives");
    } catch (IllegalStateException expected) {
      check(expected.getMessage().equals("given up"), "its own error");
    }
    var found = template.find(Query.query(Criteria.where("customer").is("eve")).with(Sort.by("_id")), Order.class).map(order -> order.id).collectList().block(SOON);
    check(found.equals(List.of("t1", "t2")), "one committed, one rolled back: " + found);
  }

  static void changes(ReactiveMongoTemplate template) throws Exception {
    var seen = new java.util.concurrent.ConcurrentLinkedQueue<String>();
    var all = new CountDownLatch(3);
    var stream = template.changeStream(Order.class).watchCollection("order").filter(Criteria.where("customer").is("fay")).listen().subscribe(event -> {
      seen.add(event.getOperationType().getValue() + " " + event.getBody().amount);
      all.countDown();
    });
    // Nothing tells when the cursor of the stream is open.
    Thread.sleep(1000);
    template.insert(new Order("c1", "fay", 6001)).block(SOON);
    template.updateFirst(Query.query(Criteria.where("_id").is("c1")), new Update().set("amount", 6002), Order.class).block(SOON);
    template.insert(new Order("c2", "gus", 6003)).block(SOON);
    template.insert(new Order("c3", "fay", 6004)).block(SOON);
    all.await(5, TimeUnit.SECONDS);
    stream.dispose();
    // For a class of its own Spring asks for the document of an update, too.
    check(List.copyOf(seen).equals(List.of("insert 6001", "update 6002", "insert 6004")), "the stream: " + seen);
  }

  static void tail(ReactiveMongoTemplate template) throws Exception {
    template.createCollection("capped", CollectionOptions.empty().capped().size(65_536)).block(SOON);
    template.insert(new Document("n", 0), "capped").block(SOON);
    var all = new CountDownLatch(20);
    var tail = template.tail(new Query(), Document.class, "capped").subscribe(row -> all.countDown());
    for (int n = 1; n < 20; n++) template.insert(new Document("n", n), "capped").block(SOON);
    check(all.await(20, TimeUnit.SECONDS), "20 rows by a tailable cursor, missing " + all.getCount());
    tail.dispose();
  }
}
