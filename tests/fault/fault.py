#!/usr/bin/env python3
"""Breaks conversions in every way that a machine can, and prints what holds. docs/security.md names the figures."""
import argparse
import os
import sys
import tempfile
from collections import namedtuple

from determinism import check_determinism
from injection import check_injection
from situations import check_situations

Tools = namedtuple('Tools', 'wconv shim')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--wconv', required=True, help='the program')
    parser.add_argument('--shim', required=True, help='libwconv_fault_shim.so')
    parser.add_argument('--also', action='append', default=[], metavar='COMMAND',
                        help='another build of wconv, which must give the same bytes; may be run by an emulator')
    parser.add_argument('--only', choices=('injection', 'situations', 'determinism'), help='one of the three parts')
    parser.add_argument('--short', action='store_true', help='a part of the injection points, in under a minute')
    arguments = parser.parse_args()
    tools = Tools(os.path.abspath(arguments.wconv), os.path.abspath(arguments.shim))  # they run in other folders
    failed = 0
    if arguments.only in (None, 'injection'):
        with tempfile.TemporaryDirectory(prefix='wconv-fault-') as work:
            failed += check_injection(tools, work, arguments.short)
    if arguments.only in (None, 'situations'):
        failed += check_situations(tools, arguments.short)
    if arguments.only in (None, 'determinism'):
        failed += check_determinism([arguments.wconv] + arguments.also)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
