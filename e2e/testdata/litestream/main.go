// Command litestream runs Litestream's engine on a SQLite file, with a directory for a replica. Litestream's own command is the same engine with the
// clients of all clouds, which take minutes to build.
//
//	litestream replicate DATABASE REPLICA   until its input ends; for each input line, it replicates everything and prints "synced"
//	litestream restore REPLICA DATABASE     the newest state
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/benbjohnson/litestream"
	"github.com/benbjohnson/litestream/file"
)

func main() {
	err := fmt.Errorf("usage: litestream replicate DATABASE REPLICA, or restore REPLICA DATABASE")
	if args := os.Args[1:]; len(args) == 3 {
		switch ctx := context.Background(); args[0] {
		case "replicate":
			err = replicate(ctx, args[1], args[2])
		case "restore":
			err = restore(ctx, args[1], args[2])
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// replicate works by itself, once a second, as Litestream does.
func replicate(ctx context.Context, database, dir string) error {
	db := litestream.NewDB(database)
	db.Replica = replicaOf(db, dir)
	db.BusyTimeout = time.Minute // other processes write all the time
	store := litestream.NewStore([]*litestream.DB{db}, litestream.DefaultCompactionLevels)
	if err := store.Open(ctx); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		// Litestream notes failures, and retries a second later: the log may have been truncated during the copy.
		for attempts := 5; ; attempts-- {
			err := db.SyncAndWait(ctx)
			if err == nil {
				break
			}
			if attempts == 0 {
				return err
			}
			fmt.Fprintln(os.Stderr, err)
			time.Sleep(time.Second)
		}
		fmt.Println("synced")
	}
	return store.Close(ctx)
}

func restore(ctx context.Context, dir, database string) error {
	options := litestream.NewRestoreOptions()
	options.OutputPath, options.IntegrityCheck = database, litestream.IntegrityCheckFull
	return replicaOf(nil, dir).Restore(ctx, options)
}

func replicaOf(db *litestream.DB, dir string) *litestream.Replica {
	client := file.NewReplicaClient(dir)
	client.Replica = litestream.NewReplicaWithClient(db, client)
	return client.Replica
}
