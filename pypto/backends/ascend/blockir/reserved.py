"""Reserved words of a kernel's text: keywords of C++ and names of the API, which no name of the user's may be."""

from __future__ import annotations

from typing import Final

from pypto.backends.ascend.blockir.instructions import INSTRUCTIONS, RECORDS
from pypto.backends.ascend.blockir.softfloat64 import parts
from pypto.backends.base import mangled

_WORDS: Final = """
 alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class co_await
 co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do
 double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace
 new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return
 short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef
 typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
 NULL EOF errno assert linux unix stdin stdout stderr INFINITY NAN HUGE_VAL
 int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t half bfloat16_t
 main min max block blocks sub_block Lesser Greater
 AscendC AscendCUtils std ascsim sim GM_ADDR ASCEND_IS_AIC ASCEND_IS_AIV LocalTensor GlobalTensor TPosition HardEvent
 TEventID RoundMode CMPMODE SELMODE ReduceOrder CacheMode QuantMode_t pipe_t QuePosition TPipe TQue TBuf InitSocState
 GetBlockIdx GetBlockNum GetSubBlockIdx GetTaskRatio ToFloat ToBfloat16 CFG_ROW_MAJOR CFG_NZ NoQuant F322F16 F322BF16
 PIPE_S PIPE_V PIPE_M PIPE_MTE1 PIPE_MTE2 PIPE_MTE3 PIPE_FIX PIPE_ALL
"""
_MATH: Final = """
 acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim floor fma
 fmax fmin fmod frexp hypot ilogb j0 j1 jn ldexp lgamma lgamma_r llrint llround log log10 log1p log2 logb lrint lround
 modf nan nearbyint nextafter nexttoward pow remainder remquo rint round scalb scalbln scalbn significand sin sincos
 sinh sqrt tan tanh tgamma trunc y0 y1 yn gamma drem finite isinf isnan
"""
_LIBRARY: Final = """
 abort abs accept access alarm aligned_alloc alloca atexit atof atoi atol atoll basename bcmp bcopy bind bsearch bzero
 calloc chdir chmod chown clearerr clock close closedir connect creat ctime daemon difftime dirname div dlopen dlsym
 dprintf dup dup2 environ err execv exit fclose feof ferror fflush ffs fgetc fgets fgetpos fileno fopen fork fprintf
 fputc fputs fread free freopen fscanf fseek fsetpos fstat ftell ftime ftok fwrite getc getchar getenv getpid gets
 gettimeofday getw glob gmtime htonl htons index initstate ioctl isalnum isalpha isascii isblank iscntrl isdigit
 isgraph islower isprint ispunct isspace isupper isxdigit kill labs ldiv link listen llabs lldiv localtime lockf longjmp
 lseek madvise malloc mblen mbstowcs mbtowc memccpy memchr memcmp memcpy memmem memmove mempcpy memset mincore mkdir
 mktime mmap mount mprotect munmap nanosleep nice ntohl ntohs open opendir optarg pause perror pipe poll popen pread
 printf psignal putc putchar putenv puts putw pwrite qsort raise rand rand_r random read readdir readlink readv realloc
 realpath recv regcomp regex regexec remove rename rewind rindex rmdir scandir scanf seed48 select send setbuf setenv
 setjmp setstate setvbuf shutdown sigaction signal sleep snprintf socket splice sprintf srand srandom sscanf stat stime
 stpcpy strcasecmp strcat strchr strcmp strcoll strcpy strcspn strdup strerror strftime strlen strncat strncmp strncpy
 strpbrk strrchr strsep strsignal strspn strstr strtod strtof strtok strtol strtold strtoll strtoul strtoull strxfrm
 swab symlink sync syscall sysconf sysinfo system tee time times timezone tmpfile tmpnam toascii tolower toupper
 truncate ttyname umask umount uname ungetc unlink unsetenv usleep utime utimes vfork vfprintf vprintf vscanf vsnprintf
 vsprintf wait waitpid wcscpy wcslen write writev
"""
WORDS: Final = frozenset(_WORDS.split()) | {name.partition("<")[0] for name in RECORDS}
# Functions of C's own library are declared by a compiler or its headers: a kernel cannot have their names, but a
# variable can. Of those of numbers there are three, for three types.
LIBRARY: Final = frozenset(_LIBRARY.split()) | {f"{name}{end}" for name in _MATH.split() for end in ("", "f", "l")}


def identifier(name: str) -> str:
    """An identifier that is no reserved word."""
    clean = mangled("".join("_" if c.isascii() and not c.isalnum() else c for c in name))
    is_internal = clean.startswith("__") or (clean[:1] == "_" and clean[1:2].isupper())
    clean = f"v{clean}" if not clean or clean[0].isdigit() or is_internal else clean
    return f"{clean}_" if clean in WORDS or clean in INSTRUCTIONS or clean in parts() else clean


def symbol(name: str) -> str:
    """The name of a kernel in its text and binary; names of C functions and of the headers are changed."""
    clean = identifier(mangled(name))
    return f"{clean}_" if clean in LIBRARY else clean
