#include "base/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <stdexcept>

namespace ondol {
namespace {

EVP_MD_CTX* as_context(void* context) { return static_cast<EVP_MD_CTX*>(context); }

void start(void* context) {
  // Fails only where the cryptographic library is not usable at all.
  if (EVP_DigestInit_ex(as_context(context), EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error("OpenSSL offers no SHA-256");
  }
}

}  // namespace

void Sha256::Free::operator()(void* context) const { EVP_MD_CTX_free(as_context(context)); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) { start(context_.get()); }

void Sha256::update(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(as_context(context_.get()), bytes.data(), bytes.size());
}

std::string Sha256::finish() {
  std::array<unsigned char, 32> digest{};
  EVP_DigestFinal_ex(as_context(context_.get()), digest.data(), nullptr);
  start(context_.get());
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace ondol
