// Command logins logs in as cases.json says, with the official Go driver. Usage: logins CASES PART HOST:PORT FOLDER
// The same program as python/logins.py, which says what is printed.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/version"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
)

type loginCase struct {
	Name, User, Mechanism, Certificate, Host, Query, Install string
	Password                                                 *string
	Source, CA                                               string
	TLS                                                      *bool
	Held, Insist                                             bool
	Steps                                                    [][2]string
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func or(given, otherwise string) string {
	if given == "" {
		return otherwise
	}
	return given
}

func uri(given loginCase, address, folder string) string {
	host, port, _ := strings.Cut(address, ":")
	query := []string{"appName=logins-go", "serverSelectionTimeoutMS=3000", "maxPoolSize=1", or(given.Query, "directConnection=true")}
	if given.TLS == nil || *given.TLS {
		query = append(query, "tls=true", "tlsCAFile="+filepath.Join(folder, or(given.CA, "ca.pem")))
		if given.Certificate != "" {
			query = append(query, "tlsCertificateKeyFile="+filepath.Join(folder, given.Certificate))
		}
	}
	if given.Mechanism != "" {
		query = append(query, "authMechanism="+given.Mechanism)
	}
	login := ""
	if given.User != "" {
		login = url.QueryEscape(given.User)
		source := "$external"
		if given.Password != nil {
			login += ":" + url.QueryEscape(*given.Password)
			source = or(given.Source, "admin")
		}
		login += "@"
		query = append(query, "authSource="+url.QueryEscape(source))
	}
	return "mongodb://" + login + or(given.Host, host) + ":" + port + "/?" + strings.Join(query, "&")
}

// connect shows the certificate even to a server that has not asked for one by this authority, where the case insists: of
// itself Go leaves it out then, and the connection goes on without one.
func connect(given loginCase, address, folder string) *mongo.Client {
	settings := options.Client().ApplyURI(uri(given, address, folder))
	if given.Insist {
		file := filepath.Join(folder, given.Certificate)
		pair, err := tls.LoadX509KeyPair(file, file)
		check(err)
		settings.TLSConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	client, err := mongo.Connect(settings)
	check(err)
	return client
}

func connectionID(ctx context.Context, client *mongo.Client) (int64, error) {
	raw, err := client.Database("admin").RunCommand(ctx, bson.M{"hello": 1}).Raw()
	if err != nil {
		return 0, err
	}
	return raw.Lookup("connectionId").AsInt64(), nil
}

func who(ctx context.Context, admin *mongo.Database) (string, error) {
	var status struct {
		AuthInfo struct {
			AuthenticatedUsers []struct{ User, DB string } `bson:"authenticatedUsers"`
		} `bson:"authInfo"`
	}
	err := admin.RunCommand(ctx, bson.M{"connectionStatus": 1}).Decode(&status)
	var names []string
	for _, user := range status.AuthInfo.AuthenticatedUsers {
		names = append(names, user.User+"@"+user.DB)
	}
	return strings.Join(names, " "), err
}

func okIf(good bool, otherwise string) string {
	if good {
		return "ok"
	}
	return otherwise
}

func act(ctx context.Context, client *mongo.Client, step string, heldID int64) (string, error) {
	admin := client.Database("admin")
	items := client.Database("logins").Collection("items")
	switch step {
	case "who":
		return who(ctx, admin)
	case "find":
		var found struct {
			ID string `bson:"_id"`
			N  int
		}
		err := items.FindOne(ctx, bson.M{"_id": "seed"}).Decode(&found)
		return okIf(found.ID == "seed" && found.N == 1, "another document"), err
	case "insert":
		key := bson.NewObjectID()
		if _, err := items.InsertOne(ctx, bson.M{"_id": key, "by": "go"}); err != nil {
			return "", err
		}
		count, err := items.CountDocuments(ctx, bson.M{"_id": key})
		return okIf(count == 1, "not inserted"), err
	case "elsewhere":
		return "ok", client.Database("elsewhere").Collection("items").FindOne(ctx, bson.M{}).Err()
	case "rotate":
		return "ok", admin.RunCommand(ctx, bson.M{"rotateCertificates": 1}).Err()
	case "same":
		id, err := connectionID(ctx, client)
		return okIf(id == heldID, "another connection"), err
	}
	return "no such step", nil
}

func outcome(ctx context.Context, client *mongo.Client, step string, heldID int64) (string, string) {
	came, err := act(ctx, client, step, heldID)
	if err == nil {
		return came, ""
	}
	var command mongo.CommandError
	var write mongo.WriteException
	// What the server answers while a connection is made.
	var below driver.Error
	switch {
	case errors.As(err, &command) && command.Code != 0:
		return strconv.Itoa(int(command.Code)), err.Error()
	case errors.As(err, &write) && len(write.WriteErrors) > 0:
		return strconv.Itoa(write.WriteErrors[0].Code), err.Error()
	case errors.As(err, &below) && below.Code != 0:
		return strconv.Itoa(int(below.Code)), err.Error()
	case mongo.IsNetworkError(err) || strings.HasPrefix(err.Error(), "server selection error: "):
		return "refused", err.Error()
	}
	return fmt.Sprintf("%T", err), err.Error()
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	path, part, address, folder := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	text, err := os.ReadFile(path)
	check(err)
	var parts map[string][]loginCase
	check(json.Unmarshal(text, &parts))
	password := "pass-root"
	root := loginCase{User: "root", Password: &password, CA: "both-ca.pem"}
	if part == "strict" {
		root.Certificate = "stranger.pem"
	}
	held := connect(root, address, folder)
	heldID, err := connectionID(ctx, held)
	check(err)
	count, wrong := 0, 0
	for _, given := range parts[part] {
		if given.Install != "" {
			pem, err := os.ReadFile(filepath.Join(folder, given.Install))
			check(err)
			check(os.WriteFile(filepath.Join(folder, "server.pem"), pem, 0o600))
		}
		client := held
		if !given.Held {
			client = connect(given, address, folder)
		}
		for _, step := range given.Steps {
			came, why := outcome(ctx, client, step[0], heldID)
			count++
			verdict := "ok"
			if came != step[1] {
				wrong++
				verdict = "WRONG, expected " + step[1]
			}
			line := fmt.Sprintf("  %s: %s: %s: %s %.200s", verdict, given.Name, step[0], came, why)
			fmt.Println(strings.TrimRight(line, " "))
		}
		if client != held {
			check(client.Disconnect(ctx))
		}
	}
	check(held.Disconnect(ctx))
	fmt.Printf("Go driver %s: %d steps, %d wrong\n", version.Driver, count, wrong)
	if wrong > 0 {
		os.Exit(1)
	}
}
