package upstream

import utilruntime "k8s.io/apimachinery/pkg/util/runtime"

// SurvivePanics makes the workers of upstream's controllers log a panic and go on with the next item: an object that their
// code does not expect must not end the server.
func SurvivePanics() { utilruntime.ReallyCrash = false }
