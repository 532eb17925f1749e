package builtin

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/policy"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"

	"github.com/rowlock/rowlock/resources"
)

var policyV1 = schema.GroupVersion{Group: "policy", Version: "v1"}

func policyGroup(budgets *resources.Type) resources.GroupSpec {
	return single(policyV1, budgets)
}

func podDisruptionBudgets() *resources.Type {
	return define[policy.PodDisruptionBudget, policy.PodDisruptionBudgetList](policyV1, "poddisruptionbudgets",
		poddisruptionbudget.Strategy, short("pdb"), status(poddisruptionbudget.StatusStrategy))
}
