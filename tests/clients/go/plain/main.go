// Command plain writes and reads by a URI as it is. Usage: plain URI ADDRESS; the driver must end up at ADDRESS.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// The addresses that commands were sent to.
type addresses struct {
	lock sync.Mutex
	used map[string]bool
}

func (a *addresses) started(_ context.Context, one *event.CommandStartedEvent) {
	a.lock.Lock()
	defer a.lock.Unlock()
	// An identifier of a connection is its address and a number in brackets.
	address, _, _ := strings.Cut(one.ConnectionID, "[")
	a.used[address] = true
}

func run(uri, address string) error {
	used := addresses{used: map[string]bool{}}
	settings := options.Client().ApplyURI(uri).SetServerSelectionTimeout(10 * time.Second)
	settings.SetMonitor(&event.CommandMonitor{Started: used.started})
	client, err := mongo.Connect(settings)
	if err != nil {
		return err
	}
	ctx := context.Background()
	defer client.Disconnect(ctx)
	items := client.Database("elsewhere").Collection("go")
	if err := items.Drop(ctx); err != nil {
		return err
	}
	session, err := client.StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(ctx)
	insert := func(ctx context.Context) (any, error) { return items.InsertOne(ctx, bson.M{"_id": 1}) }
	if _, err := session.WithTransaction(ctx, insert); err != nil {
		return err
	}
	if n, err := items.CountDocuments(ctx, bson.M{}); err != nil || n != 1 {
		return fmt.Errorf("what was inserted is not there: %d, %v", n, err)
	}
	used.lock.Lock()
	defer used.lock.Unlock()
	if len(used.used) != 1 || !used.used[address] {
		return fmt.Errorf("it went from %s to %v", uri, used.used)
	}
	return nil
}

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "go:", err)
		os.Exit(1)
	}
}
