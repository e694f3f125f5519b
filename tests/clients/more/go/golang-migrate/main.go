// golang-migrate with its MongoDB driver: two migrations up, in transactions, its lock, its version, one down, a broken one that leaves it dirty.
package main

import (
	"embed"
	"errors"
	"fmt"
	"log"
	"os"
	"runtime/debug"

	"github.com/golang-migrate/migrate/v4"
	_ "github.com/golang-migrate/migrate/v4/database/mongodb"
	"github.com/golang-migrate/migrate/v4/source/iofs"
)

//go:embed good broken
var files embed.FS

func check(err error, what string) {
	if err != nil {
		log.Fatalf("%s: %v", what, err)
	}
}

func open(folder, uri string) *migrate.Migrate {
	source, err := iofs.New(files, folder)
	check(err, "source")
	runner, err := migrate.NewWithSourceInstance("iofs", source, uri)
	check(err, "connect")
	return runner
}

func expect(runner *migrate.Migrate, wanted uint, dirty bool) {
	version, isDirty, err := runner.Version()
	check(err, "version")
	if version != wanted || isDirty != dirty {
		log.Fatalf("version %d, dirty %v; wanted %d, %v", version, isDirty, wanted, dirty)
	}
}

func main() {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/golang-migrate/migrate/v4" || module.Path == "go.mongodb.org/mongo-driver" {
				fmt.Println("VERSION", module.Path, module.Version)
			}
		}
	}
	uri := "mongodb://" + os.Args[1] + "/migrate?replicaSet=rs0&x-transaction-mode=true&x-advisory-locking=true"
	runner := open("good", uri)
	check(runner.Up(), "up")
	expect(runner, 2, false)
	if err := runner.Up(); !errors.Is(err, migrate.ErrNoChange) {
		log.Fatalf("a second run: %v", err)
	}
	check(runner.Steps(-1), "one down")
	expect(runner, 1, false)
	check(runner.Down(), "down")
	broken := open("broken", uri)
	if err := broken.Up(); err == nil {
		log.Fatal("a broken migration passed")
	}
	expect(broken, 1, true)
	check(broken.Drop(), "drop")
}
