// Command smoke walks the official Go driver through a server. Usage: smoke HOST:PORT
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/version"
)

const database = "smoke_go"

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func equal(what string, given, expected any) {
	if !reflect.DeepEqual(given, expected) {
		panic(fmt.Sprintf("%s: given %#v, expected %#v", what, given, expected))
	}
}

func connect(address, query string) *mongo.Client {
	settings := options.Client().ApplyURI("mongodb://" + address + "/?" + query).SetServerSelectionTimeout(10 * time.Second)
	return must(mongo.Connect(settings))
}

func all(ctx context.Context, cursor *mongo.Cursor, err error) []bson.M {
	check(err)
	var found []bson.M
	check(cursor.All(ctx, &found))
	return found
}

func reads(ctx context.Context, items *mongo.Collection) {
	find := options.Find().SetProjection(bson.M{"_id": 0, "n": 1}).SetSort(bson.M{"n": -1}).SetLimit(2)
	cursor, err := items.Find(ctx, bson.M{"group": 3, "n": bson.M{"$gte": 100}}, find)
	equal("find", all(ctx, cursor, err), []bson.M{{"n": int32(993)}, {"n": int32(983)}})
	cursor, err = items.Find(ctx, bson.M{}, options.Find().SetBatchSize(100))
	equal("cursor over batches", len(all(ctx, cursor, err)), 1000)
	equal("count", must(items.CountDocuments(ctx, bson.M{"group": 1})), int64(100))
	var groups []int32
	check(items.Distinct(ctx, "group", bson.M{"n": bson.M{"$lt": 4}}).Decode(&groups))
	slices.Sort(groups)
	equal("distinct", groups, []int32{0, 1, 2, 3})
	cursor, err = items.Aggregate(ctx, bson.A{
		bson.M{"$match": bson.M{"group": bson.M{"$lte": 1}}},
		bson.M{"$group": bson.M{"_id": "$group", "sum": bson.M{"$sum": "$n"}}},
		bson.M{"$sort": bson.M{"_id": -1}},
	})
	equal("aggregate", all(ctx, cursor, err), []bson.M{{"_id": int32(1), "sum": int32(49600)}, {"_id": int32(0), "sum": int32(49500)}})
}

func writes(ctx context.Context, items *mongo.Collection) {
	one := must(items.UpdateOne(ctx, bson.M{"_id": 7}, bson.M{"$set": bson.M{"name": "seven"}, "$inc": bson.M{"n": 1000}}))
	equal("updateOne", []int64{one.MatchedCount, one.ModifiedCount}, []int64{1, 1})
	upsert := must(items.UpdateOne(ctx, bson.M{"_id": "new"}, bson.M{"$set": bson.M{"name": "new"}}, options.UpdateOne().SetUpsert(true)))
	equal("upsert", upsert.UpsertedID, "new")
	var after bson.M
	update := options.FindOneAndUpdate().SetReturnDocument(options.After)
	check(items.FindOneAndUpdate(ctx, bson.M{"_id": 7}, bson.M{"$inc": bson.M{"n": -1000}}, update).Decode(&after))
	equal("findOneAndUpdate", after, bson.M{"_id": int32(7), "n": int32(7), "group": int32(7), "name": "seven"})
	equal("deleteOne", must(items.DeleteOne(ctx, bson.M{"_id": "new"})).DeletedCount, int64(1))
	equal("createIndex", must(items.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.M{"name": 1}, Options: options.Index().SetUnique(true)})), "name_1")
	equal("listIndexes", len(must(items.Indexes().ListSpecifications(ctx))), 2)
	_, err := items.InsertOne(ctx, bson.M{"_id": "twin", "name": "seven"})
	if failure, ok := err.(mongo.WriteException); !ok || !failure.HasErrorCode(11000) {
		panic(fmt.Sprintf("unique violation: given %v, expected code 11000", err))
	}
}

func walk(ctx context.Context, address, set string) {
	client := connect(address, "replicaSet="+set)
	defer func() { check(client.Disconnect(ctx)) }()
	check(client.Database(database).Drop(ctx))
	items := client.Database(database).Collection("items")
	must(items.InsertOne(ctx, bson.D{{Key: "_id", Value: 0}, {Key: "n", Value: 0}, {Key: "group", Value: 0}, {Key: "name", Value: "item 0"}}))
	var rest []any
	for n := 1; n < 1000; n++ {
		rest = append(rest, bson.D{{Key: "_id", Value: n}, {Key: "n", Value: n}, {Key: "group", Value: n % 10}, {Key: "name", Value: fmt.Sprint("item ", n)}})
	}
	equal("insertMany", len(must(items.InsertMany(ctx, rest)).InsertedIDs), 999)
	reads(ctx, items)
	writes(ctx, items)
	equal("listCollections", must(client.Database(database).ListCollectionNames(ctx, bson.M{})), []string{"items"})
	equal("listDatabases", slices.Contains(must(client.ListDatabaseNames(ctx, bson.M{})), database), true)
	check(items.Drop(ctx))
	equal("drop", len(must(client.Database(database).ListCollectionNames(ctx, bson.M{}))), 0)
	check(client.Database(database).Drop(ctx))
}

func endedSessions(ctx context.Context, client *mongo.Client) int64 {
	var status struct {
		Metrics struct {
			Commands map[string]bson.RawValue
		}
	}
	check(client.Database("admin").RunCommand(ctx, bson.M{"serverStatus": 1}).Decode(&status))
	document, ok := status.Metrics.Commands["endSessions"].DocumentOK()
	if !ok {
		return 0
	}
	return document.Lookup("total").AsInt64()
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	watcher := connect(os.Args[1], "directConnection=true")
	defer func() { check(watcher.Disconnect(ctx)) }()
	check(watcher.Ping(ctx, nil))
	var hello struct {
		SetName           string
		IsWritablePrimary bool
	}
	check(watcher.Database("admin").RunCommand(ctx, bson.M{"hello": 1}).Decode(&hello))
	before := endedSessions(ctx, watcher)
	walk(ctx, os.Args[1], hello.SetName)
	equal("endSessions on close", endedSessions(ctx, watcher) > before, true)
	fmt.Printf("Go driver %s: ok\n", version.Driver)
}
