// Spark's connector: writes and reads in parallel, schema by sampling, filters and aggregations pushed down, replacement by key, a stream of changes.

import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.streaming.Trigger;

public class Check {
  static void check(boolean holds, String what) {
    if (!holds) throw new AssertionError("not so: " + what);
  }

  static String version(Class<?> one) {
    return one.getProtectionDomain().getCodeSource().getLocation().getPath().replaceAll(".*/(.*)-([0-9][^-]*)\\.jar", "$1 $2");
  }

  public static void main(String[] arguments) throws Exception {
    String scratch = java.nio.file.Files.createTempDirectory("quarry-spark").toString();
    var spark = SparkSession.builder()
        .master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.warehouse.dir", scratch)
        .config("spark.mongodb.connection.uri", "mongodb://" + arguments[0] + "/?replicaSet=rs0")
        .config("spark.mongodb.database", "spark")
        .getOrCreate();
    spark.sparkContext().setLogLevel("ERROR");
    System.out.println("VERSION spark " + spark.version());
    System.out.println("VERSION " + version(com.mongodb.spark.sql.connector.MongoTableProvider.class));
    writeAndRead(spark, "com.mongodb.spark.sql.connector.read.partitioner.SinglePartitionPartitioner");
    for (String partitioner : List.of("SamplePartitioner", "PaginateBySizePartitioner", "PaginateIntoPartitionsPartitioner", "AutoBucketPartitioner")) {
      var read = read(spark, "com.mongodb.spark.sql.connector.read.partitioner." + partitioner);
      check(read.count() == 20_000 && read.select("_id").distinct().count() == 20_000, partitioner + " reads each row once");
      System.out.println(partitioner + ": " + read.rdd().getNumPartitions() + " partitions");
    }
    replace(spark);
    stream(spark, scratch);
    spark.stop();
    System.out.println("spark: ok");
    System.exit(0);
  }

  static Dataset<Row> read(SparkSession spark, String partitioner) {
    return spark.read().format("mongodb").option("collection", "rows").option("partitioner", partitioner)
        .option("partitioner.options.partition.size", "1").option("partitioner.options.max.number.of.partitions", "8").load();
  }

  static void writeAndRead(SparkSession spark, String partitioner) {
    var rows = spark.range(20_000).withColumnRenamed("id", "_id")
        .withColumn("kind", functions.expr("concat('k', _id % 10)")).withColumn("amount", functions.expr("_id * 2"))
        .withColumn("inner", functions.expr("named_struct('a', _id, 'b', array(1, 2, _id))")).withColumn("pad", functions.expr("repeat('x', 200)"));
    rows.write().format("mongodb").mode("overwrite").option("collection", "rows").save();
    var read = read(spark, partitioner);
    check(read.schema().fieldNames().length == 5, "a schema by sampling: " + read.schema().treeString());
    check(read.filter("kind = 'k3' and amount >= 39000").count() == 50, "filters");
    check(read.filter("inner.a in (3, 4, 5) or kind is null").count() == 3, "a filter of an inner field");
    var sums = read.groupBy("kind").agg(functions.sum("amount")).orderBy("kind").collectAsList();
    check(sums.size() == 10 && sums.get(0).getLong(1) == 39_980_000L, "sums by kind: " + sums);
    var piped = spark.read().format("mongodb").option("collection", "rows").option("aggregation.pipeline", "[{$match: {_id: {$lt: 7}}}, {$project: {twice: {$multiply: ['$_id', 2]}}}]").load();
    check(piped.count() == 7 && piped.agg(functions.max("twice")).first().getLong(0) == 12, "a pipeline of its own");
  }

  static void replace(SparkSession spark) {
    var changed = spark.range(100).withColumnRenamed("id", "_id").withColumn("kind", functions.lit("changed"));
    changed.write().format("mongodb").mode("append").option("collection", "rows").option("operationType", "update").save();
    var read = read(spark, "com.mongodb.spark.sql.connector.read.partitioner.SamplePartitioner");
    check(read.filter("kind = 'changed' and amount is not null").count() == 100, "an update keeps the other fields");
    check(read.count() == 20_000, "an update adds no row");
  }

  static void stream(SparkSession spark, String scratch) throws Exception {
    var stream = spark.readStream().format("mongodb").option("collection", "events").option("change.stream.publish.full.document.only", "true")
        .schema("_id INT, n INT").load();
    var query = stream.writeStream().format("mongodb").option("collection", "copied").option("checkpointLocation", scratch + "/checkpoint")
        .trigger(Trigger.Continuous("200 milliseconds")).outputMode("append").start();
    long copied = 0;
    for (int n = 0; n < 60 && copied < 20; n++) {
      // Nothing tells when the stream is open, so rows are written until twenty have come through.
      spark.range(n * 5L, n * 5L + 5).selectExpr("cast(id as int) as _id", "cast(id as int) as n").write().format("mongodb").mode("append").option("collection", "events").save();
      Thread.sleep(500);
      copied = spark.read().format("mongodb").option("collection", "copied").schema("_id INT, n INT").load().filter("_id = n").count();
    }
    query.stop();
    check(copied >= 20, "a stream copies what is written: " + copied);
  }
}
