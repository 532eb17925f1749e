package trial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	authentication "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rowlock/rowlock/e2e/checker/clock"
	"github.com/rowlock/rowlock/e2e/harness"
)

// jumping is the clock of a server, which keeps its offset when the server is killed and started again.
type jumping struct {
	offset  time.Duration // used only by the injector of faults
	running *clock.Clock  // nil: the server does not run yet
}

// begin starts the server.
func (j *jumping) begin(cmd *exec.Cmd) (err error) {
	if j.running != nil {
		err = j.running.Close()
	}
	if err == nil {
		j.running, err = clock.Start(cmd, j.offset)
	}
	return err
}

func (j *jumping) set(offset time.Duration) error {
	j.offset = offset
	return j.running.Set(offset)
}

// token is the clients' token for servers whose clocks jump: certificates would have ended, or not begun yet.
const token = "whatever-the-time"

// giveClock gives the next server a clock of its own. From the start, it shows another time than those of the others.
func (s *servers) giveClock(options *harness.RowlockOptions) {
	j := &jumping{offset: []time.Duration{0, 3 * time.Second, -40 * time.Minute}[len(s.clocks)%3]}
	s.clocks = append(s.clocks, j)
	options.Begin = j.begin
	options.Args = append(options.Args, "--token-auth-file="+s.tokens)
}

// writeTokens writes the file of the token.
func (s *servers) writeTokens(dir string) error {
	s.tokens = filepath.Join(dir, "tokens.csv")
	return os.WriteFile(s.tokens, []byte(token+",checker,checker,system:masters\n"), 0o600)
}

// credentials are those of the clients.
func (s *servers) credentials() (*rest.Config, error) {
	config, err := s.running[0].Config()
	if err != nil || s.clocks == nil {
		return config, err
	}
	return &rest.Config{Host: config.Host, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, nil
}

// units are the units of a jump, which has up to sixty of one: from less than a second up to years. The years cover real clocks: one that was never
// set, and one at which all certificates have ended.
var units = []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour, 365 * 24 * time.Hour}

// jump makes the clock of a server show another time: a little or much later or earlier than the right one, or the right one. It stays so until the
// next jump.
func (b *breaker) jump() (bool, error) {
	i := b.one()
	offset := time.Duration(0)
	if b.IntN(6) > 0 {
		offset = time.Duration(b.Int64N(60 * int64(units[b.IntN(len(units))])))
	}
	if b.IntN(2) == 0 {
		offset = max(-offset, -50*365*24*time.Hour)
	}
	if err := b.clocks[i].set(offset); err != nil {
		return false, err
	}
	return true, b.recovers(i)
}

// settle sets all clocks right. The former times must not matter for long.
func (s *servers) settle(ctx context.Context) error {
	for i, j := range s.clocks {
		if err := j.set(0); err != nil {
			return err
		}
		if err := s.settled(ctx, i); err != nil {
			return fmt.Errorf("server %d: its clock is right, and nothing is broken any more: %w", i, err)
		}
	}
	return nil
}

// emptyWithin is how long deleted namespaces may remain. If the server that ran the controllers was killed after the network had lost its connections,
// Postgres frees their lock when its session has been idle for 100 seconds: the checker's Unix sockets have no keepalives, which take 25 seconds on TCP.
// Another server then takes over within 30 seconds.
const emptyWithin = 3 * time.Minute

// settled waits until a server can be used with its admin.kubeconfig, and no deleted namespace remains.
func (s *servers) settled(ctx context.Context, i int) error {
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		err := s.usable(ctx, i)
		within := recoverWithin
		if errors.Is(err, errRemains) {
			within = emptyWithin
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		if time.Since(began) > within {
			return fmt.Errorf("after %v: %w", within, err)
		}
	}
}

// errRemains means that the controllers have not removed a deleted namespace yet.
var errRemains = errors.New("a namespace is deleted, and still there")

// usable uses a server: its certificate is valid, it accepts that of the kubeconfig and a token that it has issued, and the controllers work.
func (s *servers) usable(ctx context.Context, i int) error {
	config, err := s.running[i].Config()
	if err != nil {
		return err
	}
	config.Dial = (&net.Dialer{}).DialContext // a dialer of its own, so that each try is a handshake
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	issued, err := client.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authentication.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	config = rest.AnonymousClientConfig(config)
	config.BearerToken = issued.Status.Token
	bearer, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if _, err = bearer.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authentication.SelfSubjectReview{}, metav1.CreateOptions{}); err != nil {
		return err
	}
	namespaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, n := range namespaces.Items {
		if n.DeletionTimestamp != nil {
			return fmt.Errorf("%w: %s", errRemains, n.Name)
		}
	}
	return nil
}
