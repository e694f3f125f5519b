package shop;

import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.model.changestream.ChangeStreamDocument;
import com.mongodb.client.model.changestream.OperationType;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.bson.BsonDocument;
import org.bson.Document;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.dao.DuplicateKeyException;
import org.springframework.dao.OptimisticLockingFailureException;
import org.springframework.data.annotation.Id;
import org.springframework.data.annotation.Version;
import org.springframework.data.domain.Sort;
import org.springframework.data.mongodb.MongoDatabaseFactory;
import org.springframework.data.mongodb.MongoTransactionManager;
import org.springframework.data.mongodb.config.AbstractMongoClientConfiguration;
import org.springframework.data.mongodb.core.ChangeStreamOptions;
import org.springframework.data.mongodb.core.MongoTemplate;
import org.springframework.data.mongodb.core.index.Indexed;
import org.springframework.data.mongodb.core.messaging.ChangeStreamRequest;
import org.springframework.data.mongodb.core.messaging.ChangeStreamRequest.ChangeStreamRequestOptions;
import org.springframework.data.mongodb.core.messaging.DefaultMessageListenerContainer;
import org.springframework.data.mongodb.core.messaging.MessageListener;
import org.springframework.data.mongodb.repository.MongoRepository;
import org.springframework.data.mongodb.repository.Update;
import org.springframework.data.mongodb.repository.config.EnableMongoRepositories;
import org.springframework.stereotype.Service;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.annotation.EnableTransactionManagement;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * Spring Data MongoDB: repositories, @Transactional and TransactionTemplate with commit and rollback, a version field, a change
 * stream by a listener container with resume. Argument: HOST:PORT.
 */
public final class Check {
    private static final String DATABASE = "orm_spring";

    /** One owner's money. */
    @org.springframework.data.mongodb.core.mapping.Document("accounts")
    public static class Account {
        @Id
        public String id;

        @Indexed(unique = true)
        public String owner;

        public long balance;

        @Version
        public Long version;

        static Account of(String owner, long balance) {
            Account account = new Account();
            account.owner = owner;
            account.balance = balance;
            return account;
        }
    }

    /** Queries by name and by update. */
    public interface Accounts extends MongoRepository<Account, String> {
        Account findByOwner(String owner);

        @Update("{ $inc: { balance: ?1 } }")
        long findAndAddByOwner(String owner, long amount);
    }

    /** Each public method is a transaction. */
    @Service
    public static class Bank {
        private final Accounts accounts;
        private final MongoTemplate template;

        Bank(Accounts accounts, MongoTemplate template) {
            this.accounts = accounts;
            this.template = template;
        }

        /** Writes first and refuses afterwards. */
        @Transactional
        public void move(String from, String to, long amount) {
            accounts.findAndAddByOwner(to, amount);
            accounts.findAndAddByOwner(from, -amount);
            template.insert(new Document("from", from).append("to", to).append("amount", amount), "entries");
            equal("entries inside", template.getCollection("entries").countDocuments(), 1L);
            // The factory's own database takes no part in the transaction.
            equal("entries outside", template.getMongoDatabaseFactory().getMongoDatabase().getCollection("entries").countDocuments(), 0L);
            if (accounts.findByOwner(from).balance < 0) {
                throw new IllegalStateException("not enough");
            }
        }

        @Transactional
        public void openTwice(String fresh, String taken) {
            accounts.insert(Account.of(fresh, 0));
            accounts.insert(Account.of(taken, 0));
        }
    }

    /** What an application of Spring would declare. */
    @Configuration
    @EnableTransactionManagement(proxyTargetClass = true)
    @EnableMongoRepositories(considerNestedRepositories = true)
    public static class Config extends AbstractMongoClientConfiguration {
        static String address;

        @Override
        protected String getDatabaseName() {
            return DATABASE;
        }

        @Override
        protected boolean autoIndexCreation() {
            return true;
        }

        @Override
        public MongoClient mongoClient() {
            return MongoClients.create("mongodb://" + address + "/?replicaSet=rs0&serverSelectionTimeoutMS=10000");
        }

        @Bean
        MongoTransactionManager transactionManager(MongoDatabaseFactory factory) {
            return new MongoTransactionManager(factory);
        }

        @Bean
        Bank bank(Accounts accounts, MongoTemplate template) {
            return new Bank(accounts, template);
        }
    }

    private static void equal(String what, Object given, Object expected) {
        if (!Objects.equals(given, expected)) {
            throw new IllegalStateException(what + ": given " + given + ", expected " + expected);
        }
    }

    private static void refused(Class<? extends Exception> kind, Runnable block) {
        try {
            block.run();
        } catch (RuntimeException error) {
            if (kind.isInstance(error)) {
                return;
            }
            throw error;
        }
        throw new IllegalStateException("no " + kind.getSimpleName());
    }

    private static List<String> balances(Accounts accounts) {
        return accounts.findAll(Sort.by("owner")).stream().map(a -> a.owner + " " + a.balance).toList();
    }

    private static void transactions(Bank bank, Accounts accounts, MongoTemplate template) {
        bank.move("ann", "bob", 30);
        equal("after the commit", balances(accounts), List.of("ann 70", "bob 30"));
        equal("entries", template.getCollection("entries").countDocuments(), 1L);
        template.getCollection("entries").deleteMany(new Document());
        refused(IllegalStateException.class, () -> bank.move("ann", "bob", 500));
        refused(DuplicateKeyException.class, () -> bank.openTwice("cid", "ann"));
        equal("after the rollbacks", balances(accounts), List.of("ann 70", "bob 30"));
        equal("entries after the rollbacks", template.getCollection("entries").countDocuments(), 0L);
    }

    private static void byTemplate(PlatformTransactionManager manager, Accounts accounts, MongoTemplate template) {
        TransactionTemplate transaction = new TransactionTemplate(manager);
        transaction.executeWithoutResult(status -> {
            accounts.insert(Account.of("dan", 1));
            status.setRollbackOnly();
        });
        equal("after setRollbackOnly", accounts.findByOwner("dan"), null);
        Long inside = transaction.execute(status -> {
            accounts.insert(Account.of("dan", 1));
            return accounts.count();
        });
        equal("count inside", inside, 3L);
        equal("after the commit", accounts.findByOwner("dan").balance, 1L);

        Account one = accounts.findByOwner("dan");
        Account two = accounts.findByOwner("dan");
        one.balance = 2;
        accounts.save(one);
        two.balance = 3;
        refused(OptimisticLockingFailureException.class, () -> accounts.save(two));
        equal("the first save stays", accounts.findByOwner("dan").balance, 2L);
    }

    /** Collects `count` events that come after the token, or after now when there is none; `writes` runs when it listens. */
    private static List<ChangeStreamDocument<Document>> follow(MongoTemplate template, BsonDocument token, int count, Runnable writes)
            throws InterruptedException {
        BlockingQueue<ChangeStreamDocument<Document>> came = new LinkedBlockingQueue<>();
        DefaultMessageListenerContainer container = new DefaultMessageListenerContainer(template);
        container.start();
        MessageListener<ChangeStreamDocument<Document>, Account> listener = message -> came.add(message.getRaw());
        ChangeStreamOptions.ChangeStreamOptionsBuilder options = ChangeStreamOptions.builder();
        if (token != null) {
            options.resumeToken(token);
        }
        ChangeStreamRequestOptions request = new ChangeStreamRequestOptions(DATABASE, "accounts", options.build());
        boolean listens = container.register(new ChangeStreamRequest<>(listener, request), Account.class).await(Duration.ofSeconds(30));
        equal("listening", listens, true);
        writes.run();
        List<ChangeStreamDocument<Document>> events = new ArrayList<>();
        while (events.size() < count) {
            ChangeStreamDocument<Document> event = came.poll(30, TimeUnit.SECONDS);
            if (event == null) {
                throw new IllegalStateException("event " + events.size() + " of " + count + " did not come");
            }
            events.add(event);
        }
        container.stop();
        return events;
    }

    private static void stream(Bank bank, Accounts accounts, MongoTemplate template) throws InterruptedException {
        ChangeStreamDocument<Document> first = follow(template, null, 1, () -> accounts.insert(Account.of("eve", 5))).get(0);
        equal("the insert", first.getOperationType(), OperationType.INSERT);
        equal("its document", first.getFullDocument().getString("owner"), "eve");

        // What happens while nobody listens comes after the resume, in order.
        accounts.delete(accounts.findByOwner("eve"));
        bank.move("ann", "bob", 1);
        List<ChangeStreamDocument<Document>> events = follow(template, first.getResumeToken(), 3, () -> {});
        List<OperationType> kinds = events.stream().map(ChangeStreamDocument::getOperationType).toList();
        equal("events after the resume", kinds, List.of(OperationType.DELETE, OperationType.UPDATE, OperationType.UPDATE));
        equal("one transaction", events.get(1).getTxnNumber(), events.get(2).getTxnNumber());
        equal("its first change", events.get(1).getUpdateDescription().getUpdatedFields().getInt64("balance").getValue(), 31L);
    }

    public static void main(String[] arguments) throws Exception {
        Config.address = arguments[0];
        try (MongoClient client = MongoClients.create("mongodb://" + arguments[0] + "/?replicaSet=rs0")) {
            client.getDatabase(DATABASE).drop();
        }
        try (AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext(Config.class)) {
            Accounts accounts = context.getBean(Accounts.class);
            MongoTemplate template = context.getBean(MongoTemplate.class);
            Bank bank = context.getBean(Bank.class);
            template.createCollection("entries");
            accounts.saveAll(List.of(Account.of("ann", 100), Account.of("bob", 0)));
            transactions(bank, accounts, template);
            byTemplate(context.getBean(MongoTransactionManager.class), accounts, template);
            stream(bank, accounts, template);
            template.getDb().drop();
        }
        String spring = MongoTemplate.class.getPackage().getImplementationVersion();
        System.out.println("spring data mongodb " + spring + ": ok");
    }
}
