package builtin

import (
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	crd "k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/tableconvertor"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/rowlock/rowlock/resources"
)

func apiextensionsGroup() resources.GroupSpec {
	v1 := schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"}
	return single(v1,
		define[apiextensions.CustomResourceDefinition, apiextensions.CustomResourceDefinitionList](v1, "customresourcedefinitions",
			crd.NewStrategy(Scheme), short("crd", "crds"), in("api-extensions"), selectBy(crd.GetAttrs),
			table(func(schema.GroupResource) rest.TableConvertor { return tableconvertor.New() }), statusWithoutTable(crd.NewStatusStrategy(Scheme))),
	)
}
