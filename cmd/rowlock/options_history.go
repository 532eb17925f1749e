package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/history"
	"github.com/rowlock/rowlock/sqlstore"
)

// objectHistoryOptions are the flags of the object history.
type objectHistoryOptions struct {
	kept         string
	size         resource.QuantityValue
	secretValues bool

	parsed sqlstore.ObjectHistory
}

// usualObjectHistory is the value that the help text suggests: seven days, and twenty revisions.
const usualObjectHistory = "7d,20"

func (o *objectHistoryOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.kept, "object-history", "0",
		"keep the writes of each object for people: author, time, and the object before and after. `long,many` such as "+usualObjectHistory+
			" keeps the last 20 writes of the last 7 days, and as many of the status alone; 0 keeps none, and removes what was kept. Events and Leases are left out")
	o.size.Quantity = *resource.NewQuantity(sqlstore.DefaultObjectHistorySize, resource.BinarySI)
	flags.Var(&o.size, "object-history-size", "most bytes of the object history; the oldest writes are removed first")
	flags.BoolVar(&o.secretValues, "object-history-secrets", false,
		"keep the values of Secrets in the object history, so that they can be restored; otherwise it keeps keyed hashes, which show when a value changed")
}

func (o *objectHistoryOptions) complete() error {
	var err error
	if o.parsed, err = parseObjectHistory(o.kept); err != nil {
		return err
	}
	o.parsed.Size, o.parsed.SecretValues, o.parsed.Discard = o.size.Value(), o.secretValues, o.parsed.Age == 0
	if o.parsed.Size <= 0 {
		return usagef("--object-history-size must be positive; nothing is kept with --object-history=0")
	}
	return nil
}

// groups returns the API group of the object history: none without a history, so that clients find exactly the groups of kube-apiserver.
func (o *objectHistoryOptions) groups(store *sqlstore.Store, who authorizer.UnconditionalAuthorizer) []resources.GroupSpec {
	if o.parsed.Age == 0 {
		return nil
	}
	return []resources.GroupSpec{history.Config{Historian: store, Authorizer: who, Scheme: builtin.Scheme}.Group()}
}

// parseObjectHistory parses 0, or a duration and a number.
func parseObjectHistory(text string) (h sqlstore.ObjectHistory, err error) {
	if text == "0" {
		return h, nil
	}
	const form = "--object-history is 0, or an age and a number, as in " + usualObjectHistory
	age, number, ok := strings.Cut(text, ",")
	if !ok {
		return h, usagef("%s, not %q", form, text)
	}
	if h.Age, err = parseDays(age); err != nil || h.Age <= 0 {
		return h, usagef("%s: %q is no age", form, age)
	}
	if h.Revisions, err = strconv.Atoi(number); err != nil || h.Revisions <= 0 || h.Revisions > 1<<31-1 {
		return h, usagef("%s: %q is no number", form, number)
	}
	return h, nil
}

// parseDays is time.ParseDuration with days as an additional unit.
func parseDays(text string) (time.Duration, error) {
	days, ok := strings.CutSuffix(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	return time.Duration(n) * 24 * time.Hour, err
}
