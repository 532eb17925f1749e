package upstream

import "k8s.io/kubernetes/pkg/capabilities"

// AllowPrivileged sets whether pods may have privileged containers, which upstream's validation reads from a variable. Only
// the first call in a process has an effect. (The second argument is for proxied connections: no limit.)
func AllowPrivileged(allow bool) { capabilities.Setup(allow, 0) }
