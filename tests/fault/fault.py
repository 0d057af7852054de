#!/usr/bin/env python3
"""Breaks conversions in every way that a machine can, and prints what holds. docs/security.md names the figures."""
import argparse
import sys
import tempfile
from collections import namedtuple

from injection import check_injection

Tools = namedtuple('Tools', 'wconv shim')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--wconv', required=True, help='the program')
    parser.add_argument('--shim', required=True, help='libwconv_fault_shim.so')
    parser.add_argument('--short', action='store_true', help='a part of the injection points, in under a minute')
    arguments = parser.parse_args()
    tools = Tools(arguments.wconv, arguments.shim)
    with tempfile.TemporaryDirectory(prefix='wconv-fault-') as work:
        failed = check_injection(tools, work, arguments.short)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
