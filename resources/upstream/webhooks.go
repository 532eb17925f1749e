package upstream

import (
	"fmt"
	"reflect"

	webhookutil "k8s.io/apiserver/pkg/util/webhook"
)

// WebhookOf returns the unexported webhook of an upstream object: of the admission plugin ImagePolicyWebhook, or of the audit's back end. Errors:
// it has none.
func WebhookOf(asks any) (*webhookutil.GenericWebhook, error) {
	if p := reflect.ValueOf(asks); p.Kind() == reflect.Pointer && p.Elem().Kind() == reflect.Struct {
		for i := range p.Elem().NumField() {
			f := p.Elem().Field(i)
			if f.Type() == reflect.TypeFor[*webhookutil.GenericWebhook]() && !f.IsNil() {
				return (*webhookutil.GenericWebhook)(f.UnsafePointer()), nil
			}
		}
	}
	return nil, fmt.Errorf("no webhook is in a %T", asks)
}
