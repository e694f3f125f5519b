<?php
// The PHP extension "mongodb" (without the PHP library): writes, a cursor of several batches, an aggregation, a duplicate key, a transaction.
use MongoDB\Driver\{BulkWrite, Command, Exception\BulkWriteException, Manager, Query, ReadPreference, WriteConcern};

function check(bool $holds, string $what): void { if (!$holds) { fwrite(STDERR, "not so: $what\n"); exit(1); } }

echo 'VERSION php ', PHP_VERSION, "\nVERSION mongodb extension ", phpversion('mongodb'), "\n";
$manager = new Manager("mongodb://{$argv[1]}/?replicaSet=rs0");
$run = fn (array $command) => $manager->executeCommand('php', new Command($command))->toArray()[0];
$run(['dropDatabase' => 1]);
$write = new BulkWrite();
for ($i = 0; $i < 1000; $i++) { $write->insert(['_id' => $i, 'group' => $i % 10, 'amount' => $i / 4]); }
check($manager->executeBulkWrite('php.items', $write, new WriteConcern('majority'))->getInsertedCount() === 1000, 'a thousand inserted');
$rows = $manager->executeQuery('php.items', new Query(['group' => 3], ['sort' => ['_id' => -1], 'batchSize' => 7]))->toArray();
check(count($rows) === 100 && $rows[0]->_id === 993 && $rows[99]->_id === 3, 'a cursor of several batches');
$sums = $manager->executeCommand('php', new Command(['aggregate' => 'items', 'cursor' => new stdClass(),
    'pipeline' => [['$group' => ['_id' => '$group', 'sum' => ['$sum' => '$amount']]], ['$sort' => ['_id' => 1]]]]))->toArray();
check(count($sums) === 10 && $sums[0]->sum == array_sum(range(0, 990, 10)) / 4, 'sums by group');
$write = new BulkWrite();
$write->insert(['_id' => 1]);
try { $manager->executeBulkWrite('php.items', $write); check(false, 'a duplicate key is refused'); }
catch (BulkWriteException $error) { check($error->getWriteResult()->getWriteErrors()[0]->getCode() === 11000, 'code 11000'); }
$session = $manager->startSession();
foreach (['abort' => 0, 'commit' => 1] as $end => $wanted) {
    $session->startTransaction();
    $write = new BulkWrite();
    $write->insert(['_id' => 'in transaction']);
    $manager->executeBulkWrite('php.items', $write, ['session' => $session]);
    $end === 'abort' ? $session->abortTransaction() : $session->commitTransaction();
    $seen = count($manager->executeQuery('php.items', new Query(['_id' => 'in transaction']))->toArray());
    check($seen === $wanted, "$seen documents after $end");
}
$run(['dropDatabase' => 1]);
