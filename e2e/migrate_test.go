package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/e2e/harness"
)

// TestInformerThroughMigrate checks that an informer that is connected while the store moves to another database continues with the server that is
// started there. It lists again at most once, and has all writes before and after.
func TestInformerThroughMigrate(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	port, err := harness.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	// The test owns all ConfigMaps.
	options := onDatabase(harness.RowlockOptions{DataDir: t.TempDir(), Port: port, Args: []string{"--controllers=*,-root-ca-certificate-publisher-controller"}})
	server := startServer(t, options)
	configMaps := clientFor(t, server).CoreV1().ConfigMaps("default")
	const objects = 20
	write := func(state string) {
		t.Helper()
		for i := range objects {
			object, err := configMaps.Create(ctx, configMap(fmt.Sprintf("%s-%d", state, i), "0"), metav1.CreateOptions{})
			if err == nil && i%2 == 0 {
				object.Labels = map[string]string{"written": "again"}
				_, err = configMaps.Update(ctx, object, metav1.UpdateOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	write("listed")
	informer := inform(ctx, t, server)
	write("watched")

	from, to := options.Datastore, "sqlite://"+filepath.Join(options.DataDir, "moved.db")
	if from == "" {
		from = "sqlite://" + filepath.Join(options.DataDir, "rowlock.db")
	}
	do(t, "rowlock", "migrate", "--from", from, "--from-schema", options.Schema, "--to", to)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	options.Datastore, options.Schema = to, ""
	startServer(t, options)
	write("moved")
	end, err := configMaps.Create(ctx, configMap("end", "0"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	informer.check(ctx, t, configMaps, end.ResourceVersion, 3*objects+1)
}
