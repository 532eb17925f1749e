package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/rest"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/authn"
)

// subjectOptions say which user credentials are for.
type subjectOptions struct {
	user    string
	groups  []string
	ttl     time.Duration
	masters bool
}

func (o *subjectOptions) addFlags(flags *pflag.FlagSet, ttl time.Duration, whom string) {
	flags.StringVar(&o.user, "user", "", whom)
	flags.StringArrayVar(&o.groups, "group", nil, "`name` of a group of the user; may be given several times")
	flags.DurationVar(&o.ttl, "ttl", ttl, "how long the credentials are valid, such as 8h")
	flags.BoolVar(&o.masters, "allow-system-masters", false,
		"allow --group system:masters, whose members may do everything, regardless of roles and bindings")
}

// account returns the ServiceAccount that the user is, if it is one.
func (o *subjectOptions) account() (namespace, name string, ok bool) {
	namespace, name, err := serviceaccount.SplitUsername(o.user)
	return namespace, name, err == nil
}

// complete refuses users to whom only the server issues credentials.
func (o *subjectOptions) complete() error {
	if o.user == "" {
		return usagef("--user is required")
	}
	if o.ttl < time.Second {
		return usagef("--ttl must be at least a second")
	}
	if _, _, ok := o.account(); ok {
		if len(o.groups) > 0 {
			return usagef("--group cannot be given with a ServiceAccount, whose groups are its own")
		}
		return nil
	}
	err := authn.CheckSubject(o.user, o.groups, o.masters)
	switch {
	case err == nil:
		return nil
	case authn.CheckSubject(o.user, o.groups, true) == nil:
		return usagef("%w: by --allow-system-masters", err)
	case strings.HasPrefix(o.user, serviceaccount.ServiceAccountUsernamePrefix):
		return usagef("--user %s: ServiceAccounts are named system:serviceaccount:<namespace>:<name>", o.user)
	}
	return usagef("%w", err)
}

// issuer issues and revokes tokens, through a server or in the database.
type issuer struct {
	options *adminOptions
	cmd     *cobra.Command
}

// client returns a client that prints the server's warnings, as kubectl does.
func (i issuer) client() (*adminClient, error) {
	c, err := i.options.client()
	if err == nil {
		c.warnings = rest.NewWarningWriter(i.cmd.ErrOrStderr(), rest.WarningWriterOptions{Deduplicate: true})
	}
	return c, err
}

// create returns a token and its expiry.
func (i issuer) create(ctx context.Context, o *subjectOptions) (t server.TokenResponse, err error) {
	if namespace, name, ok := o.account(); ok {
		return i.createForAccount(ctx, namespace, name, o.ttl)
	}
	err = i.do(ctx, func(c *adminClient) error {
		return c.do(ctx, "POST", server.TokensPath, server.TokenRequest{User: o.user, Groups: o.groups, Seconds: int64(o.ttl / time.Second),
			AllowSystemMasters: o.masters}, &t)
	}, func(tokens *authn.IssuedTokens) (err error) {
		t.User, t.Groups = o.user, o.groups
		t.Token, err = tokens.Create(ctx, &t.IssuedToken, o.ttl)
		return err
	})
	return t, err
}

// createForAccount requests a token of a ServiceAccount from a server, which issues it if the account exists.
func (i issuer) createForAccount(ctx context.Context, namespace, name string, ttl time.Duration) (t server.TokenResponse, err error) {
	client, err := i.client()
	if err != nil {
		return t, err
	}
	seconds := int64(ttl / time.Second)
	request := authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	path := fmt.Sprintf("/api/v1/namespaces/%s/serviceaccounts/%s/token", url.PathEscape(namespace), url.PathEscape(name))
	err = client.do(ctx, "POST", path, &request, &request)
	if errors.Is(err, errNotRunning) {
		err = fmt.Errorf("tokens of ServiceAccounts are signed by a server that runs: %w", err)
	}
	t.Token, t.Expires = request.Status.Token, request.Status.ExpirationTimestamp.UTC()
	return t, err
}

// do works through a server; or in the database, if one is given or if no server runs on that of the data directory.
func (i issuer) do(ctx context.Context, remote func(*adminClient) error, local func(*authn.IssuedTokens) error) (err error) {
	named := i.options.storage.datastore != "" || i.options.storage.datastoreFile != ""
	if i.options.kubeconfig != "" || !named {
		client, err := i.client()
		if err != nil {
			return err
		}
		if err = remote(client); !errors.Is(err, errNotRunning) || i.options.kubeconfig != "" {
			return err
		}
	}
	store, err := i.options.openDatabase(ctx, i.cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return local(authn.NewIssuedTokens(resources.NewRows(store), nil))
}

func newTokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke tokens of users",
		Long: "A token authenticates a user with groups until it expires or is revoked. A revoked token is refused with the next request,\n" +
			"on other servers of a Postgres when they learn of it: after milliseconds, or up to ten seconds where the network fails.\n" +
			"Roles and bindings say what the user may do. The commands ask the server of the data directory, or that of --kubeconfig.\n" +
			"If none runs, or if --datastore is given, they write to the database itself.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenCreateCommand(), newTokenListCommand(), newTokenRevokeCommand())
	return cmd
}

// adminCommand adds the common flags of these commands.
func adminCommand(cmd *cobra.Command, more func(*pflag.FlagSet), run func(issuer, []string) error) *cobra.Command {
	o := &adminOptions{}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.complete(); err != nil {
			return err
		}
		return run(issuer{o, cmd}, args)
	}
	cmd.Flags().SortFlags = false
	more(cmd.Flags())
	o.addFlags(cmd.Flags())
	o.storage.addDatabaseFlags(cmd.Flags())
	o.encryption.addFileFlag(cmd.Flags())
	return cmd
}

func newTokenCreateCommand() *cobra.Command {
	subject := &subjectOptions{}
	return adminCommand(&cobra.Command{
		Use:   "create",
		Short: "Print a new token for a user",
		Long: "Prints a new token of a user. It cannot be shown again: only a digest is kept. With --user system:serviceaccount:<namespace>:<name>\n" +
			"it is a token of that ServiceAccount, as of 'kubectl create token', and valid while the ServiceAccount exists.",
		Example: "  rowlock token create --user jane --group team --ttl 720h\n" +
			"  rowlock kubeconfig --user jane --token --ttl 1h > jane.kubeconfig    # a kubeconfig with the token alone: kubectl would prefer a certificate",
		Args: noArguments,
	}, func(flags *pflag.FlagSet) {
		subject.addFlags(flags, 24*time.Hour, "`name` of the user, or system:serviceaccount:<namespace>:<name>")
	}, func(i issuer, _ []string) error {
		if err := subject.complete(); err != nil {
			return err
		}
		t, err := i.create(i.cmd.Context(), subject)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(i.cmd.OutOrStdout(), t.Token)
		return err
	})
}

func newTokenListCommand() *cobra.Command {
	return adminCommand(&cobra.Command{Use: "list", Short: "List the valid tokens, without their secret parts", Args: noArguments},
		func(*pflag.FlagSet) {}, func(i issuer, _ []string) error {
			var list server.TokenList
			ctx := i.cmd.Context()
			err := i.do(ctx, func(c *adminClient) error { return c.do(ctx, "GET", server.TokensPath, nil, &list) },
				func(tokens *authn.IssuedTokens) (err error) {
					list.Items, err = tokens.List(ctx)
					return err
				})
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(i.cmd.OutOrStdout(), 0, 8, 3, ' ', 0)
			fmt.Fprintln(w, "ID\tUSER\tGROUPS\tCREATED\tEXPIRES\tBY")
			for _, t := range list.Items {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", t.ID, t.User, strings.Join(t.Groups, ","), t.Created.Format(time.RFC3339), t.Expires.Format(time.RFC3339), t.By)
			}
			return w.Flush()
		})
}

func newTokenRevokeCommand() *cobra.Command {
	return adminCommand(&cobra.Command{
		Use: "revoke ID...", Short: "Revoke tokens", Example: "  rowlock token revoke 5c3k2vjqzv4d",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("which token? 'rowlock token list' shows their IDs, which are also in the tokens: rowlock_<ID>_…")
			}
			return nil
		},
	}, func(*pflag.FlagSet) {}, func(i issuer, ids []string) error {
		ctx := i.cmd.Context()
		return i.do(ctx, func(c *adminClient) error {
			for _, id := range ids {
				if err := c.do(ctx, "DELETE", server.TokensPath+"/"+url.PathEscape(id), nil, nil); err != nil {
					return err
				}
			}
			return nil
		}, func(tokens *authn.IssuedTokens) error {
			for _, id := range ids {
				if err := tokens.Revoke(ctx, id); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
