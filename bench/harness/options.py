"""What the arguments of bench/speed.py and bench/serve.py have in common."""


def check(parser, args, files):
    """Ends with a usage error where they do not fit, or where the program or one of `files` (None: not given) is missing."""
    if bool(args.peer_python) != bool(args.peer_script):
        parser.error("--peer-python and --peer-script belong together")
    if args.rounds < 1 or args.threads < 1 or args.limit <= 0:
        parser.error("-r, -t and --limit need numbers above zero")
    for file in filter(None, (args.program, args.peer_script, *files)):
        if not file.is_file():
            parser.error(f"{file} is not there" + ("; build it first: ./quickstart" if file == args.program else ""))
