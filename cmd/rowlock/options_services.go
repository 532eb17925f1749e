package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	netutils "k8s.io/utils/net"

	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/server/controlplane"
)

// endpointReconcilers are the values of --endpoint-reconciler-type.
var endpointReconcilers = []string{"", "lease", "master-count", noReconciler}

const noReconciler = "none"

// serviceOptions are the flags about Services, with kube-apiserver's names.
type serviceOptions struct {
	builtin.ServiceNetwork
	// first is the address of the Service "kubernetes".
	first net.IP

	ranges    string
	advertise net.IP
	// reconciler is kube-apiserver's --endpoint-reconciler-type.
	reconciler string
	// nodePort is the node port of the Service "kubernetes"; 0: it has none.
	nodePort int
	// peerIP and peerPort are the address at which other servers would reach this one, if both are given.
	peerIP, peerPort string
	// external is the name by which clients reach the server; empty: its address.
	external string
}

func (o *serviceOptions) addFlags(flags *pflag.FlagSet) {
	o.ServiceNetwork = builtin.DefaultServiceNetwork()
	// This is a string and not a list: if the flag is given twice, the last value counts, as in kube-apiserver.
	flags.StringVar(&o.ranges, "service-cluster-ip-range", o.Ranges[0].String(),
		"`range` of the addresses of Services; two, one of each IP family and separated by a comma, for dual stack. The first start stores it "+
			"as the ServiceCIDR kubernetes; other ServiceCIDRs extend it")
	flags.Var(&o.NodePorts, "service-node-port-range", "`range` of the node ports of Services")
	flags.IPVar(&o.advertise, "advertise-address", nil,
		"`address` of the endpoint of the Service kubernetes (default: the host of --listen, or the address of the default route)")
	flags.StringVar(&o.external, "external-hostname", "",
		"`host`, or host:port, that /api and the issuer's documents name for this server (default: an address)")
}

// addReplacingFlags adds the flags that only the command kube-apiserver has.
func (o *serviceOptions) addReplacingFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.reconciler, "endpoint-reconciler-type", "lease",
		"`type` of the endpoints of the Service kubernetes: none writes none; with lease and master-count, which are the same here, the servers of the database are the endpoints")
	flags.IntVar(&o.nodePort, "kubernetes-service-node-port", 0, "node `port` of the Service kubernetes when it is created; 0: the Service has the type ClusterIP")
	flags.StringVar(&o.peerIP, "peer-advertise-ip", "", "`IP` address of this server in the Lease by which servers know each other, if --peer-advertise-port is given, too")
	flags.StringVar(&o.peerPort, "peer-advertise-port", "", "`port` of this server in that Lease, if --peer-advertise-ip is given, too")
}

// check refuses values of these flags with kube-apiserver's messages.
func (o *serviceOptions) check() (errs []error) {
	if !slices.Contains(endpointReconcilers, o.reconciler) {
		errs = append(errs, fmt.Errorf("Reconciler not implemented: %v", o.reconciler))
	}
	if o.nodePort < 0 || o.nodePort > 65535 {
		errs = append(errs, fmt.Errorf("--kubernetes-service-node-port %v must be between 0 and 65535, inclusive. If 0, the Kubernetes master service will be of type ClusterIP", o.nodePort))
	}
	if o.nodePort > 0 && !o.NodePorts.Contains(o.nodePort) {
		errs = append(errs, fmt.Errorf("kubernetes service node port range %v doesn't contain %v", o.NodePorts, o.nodePort))
	}
	return errs
}

// checkPeer refuses an address, or a file with an authority, without the feature that uses it, with kube-apiserver's messages. The gates are set by
// then.
func (o *serviceOptions) checkPeer(caFile string) error {
	if utilfeature.DefaultFeatureGate.Enabled(features.UnknownVersionInteroperabilityProxy) {
		return nil
	}
	const refusal = " requires UnknownVersionInteroperabilityProxy feature to be turned on"
	switch {
	case caFile != "":
		return errors.New("--peer-ca-file" + refusal)
	case o.peerIP != "":
		return errors.New("--peer-advertise-ip" + refusal)
	case o.peerPort != "":
		return errors.New("--peer-advertise-port" + refusal)
	}
	return nil
}

func (o *serviceOptions) complete() error {
	parsed, err := netutils.ParseCIDRs(strings.Split(o.ranges, ","))
	if err != nil || len(parsed) == 0 || len(parsed) > 2 {
		return usagef("--service-cluster-ip-range takes one range such as 10.43.0.0/16, or two")
	}
	if len(parsed) == 2 && netutils.IsIPv6CIDR(parsed[0]) == netutils.IsIPv6CIDR(parsed[1]) {
		return usagef("--service-cluster-ip-range: two ranges must be one of IPv4 and one of IPv6")
	}
	o.Ranges = nil
	for _, r := range parsed {
		if ones, bits := r.Mask.Size(); ones < minPrefix(bits) || bits-ones < 2 {
			return usagef("--service-cluster-ip-range: %s is too large or too small: from /%d to /%d", r, minPrefix(bits), bits-2)
		}
		o.Ranges = append(o.Ranges, *r)
	}
	if o.first, err = netutils.GetIndexedIP(parsed[0], 1); err != nil {
		return usagef("--service-cluster-ip-range: %v", err)
	}
	if o.NodePorts.Base == 0 {
		return usagef("--service-node-port-range must be of ports from 1 to 65535")
	}
	if o.advertise != nil && !reachable(o.advertise) {
		return usagef("--advertise-address must be an address that other machines can reach")
	}
	return nil
}

// reachable tells whether an address can be that of an endpoint.
func reachable(ip net.IP) bool {
	return !ip.IsLoopback() && !ip.IsUnspecified() && !ip.IsLinkLocalUnicast() && !ip.IsMulticast()
}

// minPrefix is the shortest prefix of a range of Services, for addresses of a number of bits: upstream bounds the size of an IPv6 range.
func minPrefix(bits int) int {
	if bits == 32 {
		return 8
	}
	return 64
}

// network says how clients reach a server that listens on an address.
func (o *serveOptions) network(listening net.Addr, logger *slog.Logger) controlplane.Network {
	n := controlplane.Network{ServiceRanges: o.services.Ranges, NodePorts: o.services.NodePorts, Address: o.services.advertise,
		NoEndpoint: o.services.reconciler == noReconciler, NodePort: o.services.nodePort}
	if o.services.peerIP != "" && o.services.peerPort != "" {
		n.PeerAddress = net.JoinHostPort(o.services.peerIP, o.services.peerPort)
	}
	tcp, ok := listening.(*net.TCPAddr)
	if !ok {
		return n
	}
	n.Port = tcp.Port
	if n.Address == nil {
		var err error
		// An endpoint cannot have a loopback address: it gets the address that other machines would use, as in upstream.
		if n.Address, err = utilnet.ResolveBindAddress(tcp.IP); err != nil {
			logger.Info("the Service kubernetes gets no endpoint: set --advertise-address", "error", err)
		}
	}
	if len(n.ServiceRanges) > 0 && n.Address != nil && !n.NoEndpoint && netutils.IsIPv6CIDR(&n.ServiceRanges[0]) != netutils.IsIPv6(n.Address) { // kube-apiserver does not start
		logger.Warn("the address of the server and the Service kubernetes are of different IP families, so pods do not reach the server by it: "+
			"set --advertise-address or --service-cluster-ip-range", "address", n.Address.String(), "range", n.ServiceRanges[0].String())
	}
	return n
}
