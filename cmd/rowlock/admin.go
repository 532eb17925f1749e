package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/rowlock/rowlock/server/pki"
	"github.com/rowlock/rowlock/sqlstore"
)

// adminOptions say which control plane an administrator's command works on, and how it reaches it: through a running server, as the
// user of a kubeconfig, or directly in its database.
type adminOptions struct {
	dataDir    string
	kubeconfig string
	flags      *pflag.FlagSet
	storage    storageOptions
	encryption encryptionOptions
}

// adminTimeout bounds a request to a server.
const adminTimeout = time.Minute

func (o *adminOptions) addFlags(flags *pflag.FlagSet) {
	o.flags = flags
	addDataDirFlag(flags, &o.dataDir)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file` of a running server, with the user to ask as"+defaultKubeconfig)
}

// defaultKubeconfig is the end of the text of --kubeconfig.
const defaultKubeconfig = " (default: admin.kubeconfig of the data directory; if --data-dir is not given and the default directory has none, KUBECONFIG)"

func (o *adminOptions) complete() (err error) {
	if o.kubeconfig == "" {
		o.dataDir, err = absoluteDataDir(o.dataDir)
	}
	return err
}

// config returns the kubeconfig for requests to a server.
func (o *adminOptions) config() (*clientcmdapi.Config, error) {
	path := o.kubeconfig
	if path == "" {
		path = filepath.Join(o.dataDir, pki.KubeconfigName)
	}
	config, err := clientcmd.LoadFromFile(path)
	if errors.Is(err, fs.ErrNotExist) && o.kubeconfig == "" {
		// KUBECONFIG is set as the output of serve suggests: kubectl uses the same file.
		if files := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); files != "" && !o.flags.Changed("data-dir") {
			return (&clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(files)}).Load()
		}
		return nil, fmt.Errorf("no %s in %s: 'rowlock serve' writes it when it starts", pki.KubeconfigName, o.dataDir)
	}
	if err != nil {
		return nil, err
	}
	// Relative paths in a kubeconfig start at its directory.
	return config, clientcmd.ResolveLocalPaths(config)
}

// adminClient sends requests to a server.
type adminClient struct {
	host   string
	client *http.Client
	// warnings handles the warnings of answers. Nil: they are ignored.
	warnings rest.WarningHandler
}

func (o *adminOptions) client() (*adminClient, error) {
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	restConfig, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	restConfig.Timeout = adminTimeout
	restConfig.UserAgent = "rowlock/" + ownVersion() // the object history records it
	client, err := rest.HTTPClientFor(restConfig)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(restConfig)
	if err != nil {
		return nil, err
	}
	return &adminClient{host: strings.TrimSuffix(base.String(), "/"), client: client}, nil
}

// errNotRunning says that no server answers.
var errNotRunning = errors.New("no server answers")

// do sends a request with a JSON body, and decodes a JSON answer. Errors: errNotRunning; the Status of the answer.
func (c *adminClient) do(ctx context.Context, method, path string, in, out any) error {
	return c.doAs(ctx, "application/json", method, path, in, out)
}

// doAs is do with a given Accept header.
func (c *adminClient) doAs(ctx context.Context, accept, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.host+path, body)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", accept)
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.client.Do(r)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" {
			return fmt.Errorf("%w at %s: %w", errNotRunning, c.host, err)
		}
		return err
	}
	defer answer.Body.Close()
	if c.warnings != nil {
		warnings, _ := utilnet.ParseWarningHeaders(answer.Header.Values("Warning")) // client-go ignores those with errors, too
		for _, w := range warnings {
			c.warnings.HandleWarningHeader(w.Code, w.Agent, w.Text)
		}
	}
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= http.StatusBadRequest {
		var status metav1.Status
		if json.Unmarshal(data, &status) == nil && status.Message != "" {
			return &apierrors.StatusError{ErrStatus: status}
		}
		// The answer for a path that is not served has only a code.
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: int32(answer.StatusCode), //nolint:gosec // three digits
			Message: (&url.URL{Path: path}).String() + ": " + answer.Status}}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}

// openDatabase opens the database beside the servers that use it, or, with SQLite, while none does. Only the command's own changes
// are made: the servers decide how much history is kept.
func (o *adminOptions) openDatabase(ctx context.Context, stderr io.Writer) (*adminStore, error) {
	if err := o.storage.completeDatabase(o.dataDir); err != nil {
		return nil, err
	}
	options := sqlstore.Options{URL: o.storage.datastore, Schema: o.storage.schema, HistoryAge: math.MaxInt64, HistorySize: math.MaxInt64,
		Logger: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if err := o.storage.checkThere(ctx, o.dataDir, options); err != nil {
		return nil, err
	}
	keys, err := o.encryption.open(ctx)
	if err != nil {
		return nil, err
	}
	options.Transformers = keys.transformers
	store, err := sqlstore.Open(ctx, options)
	if err != nil {
		keys.close()
		return nil, err
	}
	return &adminStore{store, keys}, nil
}

// adminStore is a store that is opened with the encryption keys of the servers, so that it encrypts as they do.
type adminStore struct {
	*sqlstore.Store
	keys encryption
}

// Close closes the store and the keys.
func (s *adminStore) Close() error {
	defer s.keys.close()
	return s.Store.Close()
}

// awaitCertificate waits until a CertificateSigningRequest has a certificate.
func (c *adminClient) awaitCertificate(ctx context.Context, path, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout/2)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.host+path+"?watch=1&fieldSelector=metadata.name%3D"+url.QueryEscape(name), nil)
	if err != nil {
		return nil, err
	}
	answer, err := c.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	for events := json.NewDecoder(answer.Body); ; {
		var event struct {
			Object certificatesv1.CertificateSigningRequest `json:"object"`
		}
		if err := events.Decode(&event); err != nil {
			return nil, fmt.Errorf("the request %s was approved, and nobody signed it: %w", name, err)
		}
		for _, condition := range event.Object.Status.Conditions {
			if condition.Type == certificatesv1.CertificateFailed || condition.Type == certificatesv1.CertificateDenied {
				return nil, fmt.Errorf("the request %s was not signed: %s", name, condition.Message)
			}
		}
		if certificate := event.Object.Status.Certificate; len(certificate) > 0 {
			return certificate, nil
		}
	}
}
